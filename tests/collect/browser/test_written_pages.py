"""Every page that a command writes fits a phone, in Chromium: nothing sticks out to the side, and
what is wider than the screen (a large table, a tree) scrolls in a box of its own.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.collect.browser.test_accessibility import screen
from typer.testing import CliRunner

from sfumato import __version__
from sfumato.cli import app

pytestmark = pytest.mark.xdist_group("browser")

SCHEMA = """
attribute = [
  { name = "age", type = "numeric", min = 18, max = 90, cuts = [40, 60] },
  { name = "smoker", type = "category", values = ["no", "yes"] },
  { name = "exercise", type = "category", values = ["none", "some", "regular"] },
]
"""
ASKED = "SELECT exercise, COUNT(*) FROM t WHERE smoker = 'yes' GROUP BY exercise"
KEYS = "few.csv --confidential income --keys age,sex,region"
MADE = {
    "query": f'query b.parquet "{ASKED}" --plot query.html',
    "mine": "mine b.parquet --min-support 0.1 --max-length 2 --rules --min-confidence 0.5 "
    "--truth survey.csv --plot mine.html",
    "classify": "classify b.parquet --target smoker --plot classify.html",
    "regress": 'regress b.parquet "smoker ~ age + exercise" --plot regress.html',
    "compare": "compare b.parquet --by exercise --of smoker --power 3% --plot compare.html",
    "plan": "plan s.toml --rows 2000 --gamma 19 --plot plan.html",
    "audit": "audit b.parquet --truth survey.csv --order o.npy --plot audit.html",
    "identify": f"identify {KEYS} --plot identify.html",
    "swap": f"swap {KEYS} --proportion 0.5 --anyway -o swapped.csv --dossier swap.html",
    "suppress": "suppress few.csv -o k.csv --keys sex,region --k 3 --dossier suppress.html",
    "pram": "pram few.csv -o p.csv --gamma 19 --column smoker --dossier pram.html",
    "hide": "hide q.dat -o h.dat --patterns p.txt --min-support 0.05 --seconds 1 --plot hide.html",
    "reproduce": "reproduce mask-figure-1 frapp-figure-7 li-sarkar-table-3 --plot reproduce.html",
}
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
SILENT = """
return [...document.querySelectorAll('img')].filter((image) => image.alt.length < 30)
  .map((image) => image.alt)
"""


def call(line: str) -> None:
    """Run a command here, and see it succeed."""
    done = CliRunner().invoke(app, shlex.split(line))
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small survey, blurred, and some baskets."""
    made = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        call("generate survey --rows 2000 --seed 1 -o survey.csv")
        lines = Path("survey.csv").read_text(encoding="utf-8").splitlines()
        Path("few.csv").write_text("\n".join(lines[:301]) + "\n", encoding="utf-8")
        Path("s.toml").write_text(SCHEMA, encoding="utf-8")
        Path("p.txt").write_text("12\n", encoding="utf-8")
        call("generate quest T5.I2.D300.N20 --seed 1 -o q.dat")
        blur = "perturb survey.csv --schema s.toml --gamma 19 --seed 1"
        call(f"{blur} -o b.parquet --order o.npy")
    return made


@pytest.mark.parametrize("name", MADE)
def test_no_written_page_is_wider_than_a_phone(
    name: str, folder: Path, chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    call(MADE[name])
    with screen(chromium, 390, 844):
        chromium.get((folder / f"{name}.html").as_uri())
        assert chromium.execute_script(WIDER) == 0
        assert chromium.execute_script(SILENT) == [], "a picture whose words say nothing"
        text = chromium.find_element("css selector", "body").text
    assert f"made by sfumato {__version__}" in text.lower()


def test_a_page_that_is_too_wide_would_be_found(tmp_path: Path, chromium: Any) -> None:
    page = tmp_path / "wide.html"
    head = '<!doctype html><meta name="viewport" content="width=device-width">'
    page.write_text(f"{head}<pre>{'x' * 200}</pre><img alt='x'>", encoding="utf-8")
    with screen(chromium, 390, 844):
        chromium.get(page.as_uri())
        assert chromium.execute_script(WIDER) > 0
        assert chromium.execute_script(SILENT) == ["x"]
