"""What is shipped installs, imports and declares all it uses, and names no machine it
was made on.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, packages_distributions
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sfumato

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def distributions(requirements: Iterable[str]) -> set[str]:
    """The names of the distributions that some requirements ask for."""
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


CORE = distributions(PROJECT["dependencies"])
EXTRAS = distributions(chain.from_iterable(PROJECT["optional-dependencies"].values())) - {"sfumato"}


# --- what the source imports
# -------------------------------------------------------------------------------------


def third_party(tree: ast.AST) -> Iterator[str]:
    """The top-level name of every module imported that is neither Python's nor ours."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        tops = {name.partition(".")[0] for name in names}
        yield from tops - sys.stdlib_module_names - {"sfumato"}


def imports_by_file() -> dict[Path, set[str]]:
    """The distributions that each source file imports from."""
    owners = packages_distributions()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    return {
        path: {canonicalize_name(owners.get(name, [name])[0]) for name in third_party(tree)}
        for path, tree in trees.items()
    }


def test_every_import_is_declared() -> None:
    undeclared = {
        str(path.relative_to(ROOT)): sorted(names - CORE - EXTRAS)
        for path, names in imports_by_file().items()
        if names - CORE - EXTRAS
    }
    assert not undeclared


def test_every_declared_dependency_is_imported() -> None:
    unused = (CORE | EXTRAS) - set().union(*imports_by_file().values())
    assert not unused, f"declared in pyproject.toml but imported nowhere: {sorted(unused)}"


def test_the_extra_called_all_holds_every_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == extras.keys() - {"all"}


# --- the wheel
#
#
#
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, freshly built."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that some requirements ask for, and those that these ask for in turn."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in found:
            found[requirement.name] = distribution(requirement.name)
            waiting += [Requirement(text) for text in found[requirement.name].requires or []]
    return found


def site_packages(environment: Path) -> Path:
    """Where an environment keeps what is installed in it."""
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


@pytest.fixture(scope="module")
def clean_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that holds the wheel, what its metadata requires, and nothing else.

    The requirements are linked from the environment of the tests, so no network is needed.
    """
    environment = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(environment, symlinks=True, with_pip=True)
    site = site_packages(environment)
    for part in needed(PROJECT["dependencies"]).values():
        tops = {
            file.parts[0] for file in part.files or [] if file.parts[0] not in ("..", "__pycache__")
        }
        for top in tops - {entry.name for entry in site.iterdir()}:
            (site / top).symlink_to(Path(str(part.locate_file(top))))
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    install = [
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
        str(wheel),
    ]
    subprocess.run([*pip, *install], check=True, capture_output=True, timeout=120)
    return environment


def run_clean(environment: Path, *arguments: str) -> str:
    """What a program of a clean environment prints, away from the source tree and its settings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [environment / "bin" / arguments[0], *arguments[1:]],
        cwd=environment,
        env=plain,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_typed_licensed_and_holds_every_source(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    assert "sfumato/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    kinds = ("*.py", "collect/static/**/*.*", "collect/strings/*.json")
    shipped = {path for kind in kinds for path in SOURCE.rglob(kind) if path.suffix != ".pyc"}
    assert {path.relative_to(SOURCE.parent).as_posix() for path in shipped} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_the_wheel_imports_in_a_clean_environment(clean_environment: Path) -> None:
    """Every module loads with the required dependencies only, or says which extra it needs: an
    extra's library is imported where it is used.
    """
    script = """
import importlib, pkgutil, sfumato
from sfumato.errors import MissingExtraError
for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except MissingExtraError as error:
            served = ("collect.server", "collect.simulating", "cli.serve", "cli.simulate")
            assert module.name.removeprefix("sfumato.") in served, (module.name, error)
print(sfumato.__version__, sfumato.__file__)
"""
    version, file = run_clean(clean_environment, "python", "-c", script).split()
    assert version == sfumato.__version__
    assert Path(file).is_relative_to(site_packages(clean_environment))


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_no_extra_is_in_the_clean_environment(clean_environment: Path, name: str) -> None:
    installed = {
        entry.name.partition("-")[0].lower() for entry in site_packages(clean_environment).iterdir()
    }
    assert name.replace("-", "_") not in installed


def test_the_command_runs_in_a_clean_environment(clean_environment: Path) -> None:
    assert "perturb" in run_clean(clean_environment, "sfumato", "--help")


def test_the_wheel_says_where_the_papers_experiments_are(
    clean_environment: Path, wheel: Path
) -> None:
    assert not [name for name in ZipFile(wheel).namelist() if "papers" in name]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for arguments in ((), ("mask-table-7", "--data", "data", "--json")):
        done = subprocess.run(
            [clean_environment / "bin" / "sfumato", "reproduce", *arguments],
            cwd=ROOT,  # what lies in the folder where it is typed is not run
            env=plain,
            text=True,
            capture_output=True,
            timeout=300,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 2 and "'papers' of Sfumato's repository" in said, said
        assert said.count("\n") == 1 or "--json" in arguments


# --- the public names
# --------------------------------------------------------------------------------------------


def test_every_public_name_loads() -> None:
    assert [name for name in sfumato.__all__ if not hasattr(sfumato, name)] == []


def test_the_type_checker_sees_every_public_name() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    froms = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {
        alias.asname or alias.name: f"{(node.module or '').removeprefix('sfumato.')}:{alias.name}"
        for node in froms
        for alias in node.names
    }
    assert seen == sfumato._EXPORTS


# --- the files
#
#
#
# --------------------------------------------------------------------------------------------------

# Written in pieces, so that this file does not hold what it forbids.
MACHINE_PATH = re.compile(
    r"(?<![\w.$~}])/(?:" + "|".join(("work", "root", "farm", "home/\\w+", "tmp", "opt")) + ")/"
)
REGISTRY = re.compile(
    r"(?:https?|file)://[^\s\"']*(?:/simple|/py" + r"pi|registry\.|/packages/[0-9a-f]{2}/)", re.I
)
INDEX_OPTION = re.compile(r"^\s*--(?:extra-)?index-url|^\s*--find-links", re.M)


def tracked() -> list[Path]:
    """Every file under version control."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout, so which files are tracked is not known")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def forbidden(text: str) -> list[str]:
    """The machine paths and package registry addresses in a text."""
    return [
        match.group()
        for pattern in (MACHINE_PATH, REGISTRY, INDEX_OPTION)
        for match in pattern.finditer(text)
    ]


def test_no_tracked_file_names_a_machine_path_or_a_registry() -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in tracked()}
    found = {
        str(path.relative_to(ROOT)): hits
        for path, text in texts.items()
        if (hits := forbidden(text))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main/x",
        "'/" + "root/.cache'",
        "https://host.example/" + "simple",
        "--index" + "-url x",
    ],
)
def test_a_machine_path_or_a_registry_is_found(text: str) -> None:
    assert forbidden(text)


WORK = "/".join(
    ["", "work", ""]
)  # in pieces, so that a search for machine paths does not find this file


@pytest.mark.parametrize(
    "text",
    [f"docs{WORK}plan.md", "https://example.org/paper.pdf", "#!/usr/bin/env bash", f"~{WORK}"],
)
def test_other_paths_are_accepted(text: str) -> None:
    assert not forbidden(text)


def test_no_tracked_file_is_large() -> None:
    assert [str(path) for path in tracked() if path.stat().st_size > 2**20] == []


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-oldest.lock", "requirements-bench.lock"]
)
def test_a_lock_file_pins_every_dependency_by_hash_and_names_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines and all("==" in line and "--hash=sha256:" in line for line in lines)
    assert "://" not in text
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert not (CORE | EXTRAS) - pinned


def test_the_oldest_lock_holds_the_stated_lower_bounds() -> None:
    text = (ROOT / "requirements-oldest.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))
    stated = [
        *PROJECT["dependencies"],
        *chain.from_iterable(PROJECT["optional-dependencies"].values()),
    ]
    for requirement in (part for part in map(Requirement, stated) if part.name != "sfumato"):
        (bound,) = [part.version for part in requirement.specifier if part.operator == ">="]
        assert locked[requirement.name].startswith(bound), (
            f"{requirement}: locked {locked[requirement.name]}; make lock"
        )


def test_tests_do_algebra_with_one_thread_each() -> None:
    """Else workers spin for one another's cores: the suite took twice its time."""
    threads = pytest.importorskip("threadpoolctl", reason="the extra 'learn' is not installed")
    import scipy.linalg  # noqa: F401  (loads its own algebra beside NumPy's)

    found = [
        each["num_threads"] for each in threads.threadpool_info() if each["user_api"] == "blas"
    ]
    assert found and set(found) == {int(os.environ["OMP_NUM_THREADS"])} == {1}


# --- what a checkout offers to those who join
# -------------------------------------------------------------------------------------


def test_others_run_the_same_scripts_and_cite_the_same_project() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["bash .ci/run"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


def test_a_hook_refuses_a_long_subject(tmp_path: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (subject,) = (hook for hook in hooks["repos"][0]["hooks"] if hook["id"] == "subject")
    for length, status in ((72, 0), (73, 1)):
        message = tmp_path / "message"
        message.write_text("s" * length + "\n\n" + "b" * 100 + "\n", encoding="utf-8")
        command = [*shlex.split(subject["entry"]), str(message)]
        assert subprocess.run(command).returncode == status
