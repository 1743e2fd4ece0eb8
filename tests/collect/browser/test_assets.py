"""The files that browsers get: types, sizes, and what they may not hold."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.collect.browser.collector import STATIC, document
from tests.collect.browser.surveys import everything, health

from sfumato.collect.form import MODULES, single_file
from sfumato.collect.language import LANGUAGES
from sfumato.domain import Category, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal

HERE = Path(__file__).parent
pytestmark = pytest.mark.xdist_group("browser")  # one process installs the test tools


def weight(text: bytes) -> int:
    return len(gzip.compress(text, 9))


def test_the_types_of_the_scripts_hold(npm_packages: Path, node: str) -> None:
    command = [node, str(npm_packages / "typescript" / "bin" / "tsc"), "-p", str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "" and done.returncode == 0


def test_the_type_checker_would_find_something(
    npm_packages: Path, node: str, tmp_path: Path
) -> None:
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        (tmp_path / module.name).write_text(
            text.replace("this.refill = refill;", "this.refill = 7;")
        )
    config = json.loads((HERE / "tsconfig.json").read_text(encoding="utf-8"))
    (tmp_path / "tsconfig.json").write_text(json.dumps(config | {"files": ["form.js"]}))
    command = [node, str(npm_packages / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "not callable" in done.stdout and done.returncode


def test_every_script_is_checked_and_small() -> None:
    """The client's scripts 8 KB each after compression, comments and all; the whole form 35 KB, in
    any language; as one file it has all languages, and a limit of its own.
    """
    for path in MODULES:
        assert path.read_text(encoding="utf-8").startswith("// @ts-check\n")
        assert weight(path.read_bytes()) <= (8 << 10) or path.stem == "form", path.name
    files = [path for path in STATIC.rglob("*") if path.is_file() and "dashboard" not in path.name]
    for language in LANGUAGES:
        loaded = [path for path in files if path.parent.name != "strings" or path.stem == language]
        assert sum(weight(path.read_bytes()) for path in loaded) <= 35 << 10


def test_the_single_file_is_small_too() -> None:
    assert weight(single_file(health(), "https://collector.example").encode()) <= 40 << 10


FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
             "new Function", "localStorage", "sessionStorage", "sendBeacon",
             "document.cookie")  # fmt: skip


def test_no_script_takes_text_for_markup_or_talks_past_the_ledger() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert [word for word in FORBIDDEN if word in text] == [], path.name
        assert re.findall(r"https?://(?!collector\.example)[\w.]+", text) == [], path.name


def test_chance_comes_from_the_operating_system_alone() -> None:
    """Math.random serves only to spread retries."""
    found = [
        (path.name, line.strip())
        for path in sorted(STATIC.glob("*.js"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "Math.random" in line
    ]
    assert [name for name, _ in found] == ["sfumato.js"] and "seconds" in found[0][1]


def test_the_package_lock_pins_by_hash_and_names_no_address() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages and all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert "://" not in (HERE / "package-lock.json").read_text(encoding="utf-8")


# --- one file


def test_one_file_holds_everything_and_allows_nothing_else() -> None:
    page = single_file(health(), "https://collector.example/surveys/")
    assert not re.search(r"<(?:link|img|iframe)\b", page)
    assert re.findall(r'src="|@import|url\(', page) == []
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert "connect-src https://collector.example;" in policy and "default-src 'none'" in policy
    assert "unsafe" not in policy and policy.count("'sha256-") == 2
    assert 'campaign="https://collector.example/surveys/v1/campaigns/health"' in page
    for language in LANGUAGES:
        assert json.dumps(language) in page


def test_text_of_a_campaign_cannot_end_its_element() -> None:
    nasty = "</script><script>alert(1)</script>"
    page = single_file(health(title={"en": nasty}), "https://collector.example")
    assert nasty not in page and page.count("</script>") == 4


@pytest.mark.parametrize(
    "server",
    ["collector.example", "ftp://collector.example", "https://", "https://a b", 'https://a"b',
     "https://a; script-src *"],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_refused(server: str) -> None:
    with pytest.raises(ParameterError, match="not the address of a server"):
        single_file(health(), server)


def test_every_campaign_of_the_tests_is_as_the_server_would_say_it() -> None:
    assert everything()["promise"]["gamma"].count("/") == 1
    mechanism = GammaDiagonal(Domain((Category("x", ("a", "b")),)), 3)
    assert document(mechanism)["promise"] == {
        "gamma": "3/1",
        "epsilon": mechanism.guarantee.epsilon,
    }
