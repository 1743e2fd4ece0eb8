"""The wheel serves: installed into an empty environment, it hands out the form as it was built."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.collect.speaking import CAMPAIGN, Speaker, some_reports
from tests.test_packaging import PROJECT, ROOT, needed, site_packages, wheel

__all__ = ["wheel"]  # the wheel, freshly built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, what it requires, what the extra `serve` requires, and
    nothing else; linked from the environment of the tests, so no network is needed.
    """
    made = tmp_path_factory.mktemp("serving") / "venv"
    venv.create(made, symlinks=True, with_pip=True)
    site = site_packages(made)
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"]]
    for part in needed(wanted).values():
        tops = {f.parts[0] for f in part.files or [] if f.parts[0] not in ("..", "__pycache__")}
        for top in tops - {entry.name for entry in site.iterdir()}:
            (site / top).symlink_to(Path(str(part.locate_file(top))))
    install = ["install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    pip = [str(made / "bin" / "python"), "-m", "pip", *install, str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, timeout=120)
    return made


@contextmanager
def served(environment: Path, folder: Path) -> Iterator[str]:
    (folder / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(environment / "bin" / "sfumato"), "serve", "c.toml", "--port", "0", "--json"]
    process = subprocess.Popen(
        command, cwd=folder, env=plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)["address"]
    finally:
        process.terminate()
        process.wait(30)


def test_the_installed_wheel_serves_the_form_and_takes_a_report(environment, wheel, tmp_path):
    start = "sfumato/collect/static/"
    with ZipFile(wheel) as built:
        shipped = {
            name.removeprefix(start): hashlib.sha256(built.read(name)).hexdigest()
            for name in built.namelist()
            if name.startswith(start)
        }
    with served(environment, tmp_path) as address:
        speaker = Speaker(address)
        manifest = speaker.get("/v1/manifest").json
        assert manifest["files"] == shipped and "form.html" in shipped
        page = speaker.get("/health").body.decode()
        links = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        assert links and all(manifest["digest"][:16] in link for link in links)
        for link in links:
            answer = speaker.get(link)
            assert answer.status == 200
            assert hashlib.sha256(answer.body).hexdigest() == shipped[link.split("/", 3)[3]]
        found = speaker.get(speaker.campaign()).json["hash"]
        reports = {"campaign": found, "reports": some_reports(1)}
        assert speaker.ask("POST", speaker.campaign("/reports"), reports).json["stored"] == 1


def test_the_source_archive_holds_the_form_too(tmp_path):
    import sys
    import tarfile

    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory"]
    subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=120
    )
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    static = ROOT / "src" / "sfumato" / "collect" / "static"
    files = {path.relative_to(ROOT).as_posix() for path in static.rglob("*") if path.is_file()}
    assert files and files <= names
