"""The page of the idea: small, sealed, the same bytes everywhere; its figures are the library's; in
a browser it answers to keys, on a phone, in the dark and without motion, and axe finds nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.collect.browser.scripts import find, wait
from tests.collect.browser.test_accessibility import screen, violations

import sfumato as sf
from sfumato.collect.play import HERE, play_page
from sfumato.domain import Category, Domain
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.randomness import seeded

pytestmark = pytest.mark.xdist_group("browser")
RUN = """
import { readFileSync } from "node:fs";
const { expected, guessed, posterior, shares } = await import(process.argv[1]);
const cases = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(cases.map(({ counts, gamma, law, people }) => ({
  shares: shares(counts, gamma),
  expected: expected(law[0], gamma, law.length, people),
  guessed: guessed(law, gamma),
  posterior: posterior(law, gamma, 1),
}))));
"""


def test_the_page_is_small_sealed_and_reads_no_other_file() -> None:
    page = play_page()
    assert page == play_page() and len(page.encode()) <= 60_000
    assert "default-src 'none'" in page and page.count("<script") == page.count("<style") == 1
    assert not re.findall(
        r"""(?:src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", page
    )


def test_its_figures_are_those_of_the_library(node: str) -> None:
    draw = np.random.default_rng(8)
    cases, reports = [], []
    for cells, gamma in product((3, 6), (2, 4, 19, 200)):
        law = draw.dirichlet(np.ones(cells))
        domain = Domain((Category("kind", tuple("abcdef"[:cells])),))
        truth = sf.Table(domain, (draw.choice(cells, 4000, p=law),))
        release = sf.perturb(truth, GammaDiagonal(domain, gamma), seeded(cells * gamma))
        counts = np.bincount(release.table.columns[0], minlength=cells)
        cases.append(
            {"counts": counts.tolist(), "gamma": gamma, "law": law.tolist(), "people": 4000}
        )
        reports.append(release.marginal(["kind"]))
    done = subprocess.run(
        [node, "--input-type=module", "-e", RUN, (HERE / "estimate.js").as_uri()],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for case, found, ours in zip(cases, json.loads(done.stdout), reports, strict=True):
        shares = [each["share"] for each in found["shares"]]
        assert np.allclose(np.multiply(shares, 4000), ours.value, rtol=1e-9)
        errors = [each["stderr"] for each in found["shares"]]
        assert np.allclose(np.multiply(errors, 4000), ours.stderr, rtol=1e-9)
        cells, gamma = len(case["law"]), case["gamma"]
        channel = np.ones((cells, cells)) + (gamma - 1) * np.eye(cells)
        joint = channel / channel[0].sum() * case["law"]  # reports by records
        assert found["guessed"] == pytest.approx(joint.max(axis=1).sum())
        assert np.allclose(found["posterior"], joint[1] / joint[1].sum())
        # The error to expect is that of repeated blurring: the variance of one report's weight.
        weight = np.linalg.inv(channel / channel[0].sum())[0]
        chances = joint.sum(axis=1)
        spread = chances @ weight**2 - case["law"][0]
        assert found["expected"] == pytest.approx(np.sqrt(spread / 4000), rel=1e-6)


def test_the_types_of_its_scripts_hold(npm_packages: Path, node: str, tmp_path: Path) -> None:
    here = Path(__file__).parent
    config = json.loads((here / "tsconfig.json").read_text(encoding="utf-8"))
    for script in [*HERE.glob("*.js"), *(HERE.parent / "static").glob("*.js")]:
        (tmp_path / script.name).write_bytes(script.read_bytes())
    (tmp_path / "tsconfig.json").write_text(json.dumps(config | {"files": ["play.js"]}))
    command = [node, str(npm_packages / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def page(tmp_path: Path) -> str:
    file = tmp_path / "play.html"
    file.write_text(play_page(), encoding="utf-8")
    return file.as_uri()


def said(chromium: Any, name: str) -> str:
    return find(chromium, f"#{name}").text


def press(chromium: Any, selector: str, key: str, times: int = 1) -> None:
    for _ in range(times):
        find(chromium, selector).send_keys(key)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_everyone_can_use_it(
    chromium: Any, npm_packages: Path, page: str, width: int, scheme: str
) -> None:
    with screen(chromium, width, 900, scheme):
        chromium.get(page)
        wait(lambda: "γ = 4 " in said(chromium, "gamma-said"), "the page")
        overflow = "return document.documentElement.scrollWidth - innerWidth"
        assert chromium.execute_script(overflow) <= 0
        assert violations(chromium, npm_packages) == []
        press(chromium, "#gamma", "\ue010")  # End
        wait(lambda: "γ = 200" in said(chromium, "gamma-said"), "the strongest key")
        press(chromium, "input[value='2']", " ")
        bars = "return document.querySelectorAll('#bars rect').length"
        wait(lambda: chromium.execute_script(bars) == 6, "six bars")
        assert violations(chromium, npm_packages) == []
    severe = [line for line in chromium.get_log("browser") if line["level"] == "SEVERE"]
    assert [line for line in severe if "favicon.ico" not in line["message"]] == []  # Chromium's own


def test_without_motion_people_are_there_at_once(chromium: Any, page: str) -> None:
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        chromium.get(page)
        find(chromium, "#watch").click()
        assert said(chromium, "people-said") == "5,000"
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_its_intervals_hold_and_the_estimates_are_not_the_truth(chromium: Any, page: str) -> None:
    """The triangle lies within the line about as often as 95 %: of 300 bars less than 270 are as
    unlikely as one in a million.
    """
    chromium.get(page)
    look = """
    const rows = [];
    for (let i = 0; i < 100; i++) {
      document.getElementById('again').click();
      const tips = [...document.querySelectorAll('#bars path')];
      document.querySelectorAll('#bars line').forEach((line, cell) => {
        const tip = Number(tips[cell].getAttribute('d').match(/^M([\\d.]+)/)[1]);
        rows.push([Number(line.getAttribute('x1')), tip, Number(line.getAttribute('x2'))]);
      });
    }
    return rows;
    """
    rows = np.array(chromium.execute_script(look))
    held = (rows[:, 0] <= rows[:, 1]) & (rows[:, 1] <= rows[:, 2])
    assert 270 <= held.sum() < 300
