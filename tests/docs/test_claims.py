"""What pages and SECURITY.md say in words of their own is what the program does."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from typer.testing import CliRunner

import sfumato as sf
from docs_build.running import DOCS, ROOT
from papers.data_sets import census
from sfumato import untrusted
from sfumato.cli import app
from sfumato.datasets import survey
from sfumato.domain import Category, Domain
from sfumato.engines import duckdb
from sfumato.engines.limits import STATEMENT_SECONDS
from sfumato.mechanisms import matrix
from sfumato.mechanisms.gamma_diagonal import RandomizedGamma
from sfumato.mechanisms.registry import mechanism_class
from sfumato.mechanisms.sizes import TIERS, tiers_above
from sfumato.table import limits


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def megabytes(count: int) -> str:
    return f"{count >> 20} MB"


def test_the_bounds_that_security_states_are_those_of_the_program() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    cells = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    rows = {line[0]: line[1] for line in cells if len(line) == 2}
    digits, values = untrusted.MOST_DIGITS, untrusted.MOST_VALUES // 1_000_000
    assert rows == {
        "a description, a model, what a server says (JSON)": megabytes(untrusted.MOST_JSON_BYTES)
        + f", {values} million values, {untrusted.MOST_DEPTH} deep",
        "a schema, a campaign (TOML)": f"{megabytes(untrusted.MOST_TOML_BYTES)}, "
        f"{untrusted.MOST_KEYS:,} keys",
        "a matrix; names; a list of items, candidates or patterns": "; ".join(
            map(
                megabytes,
                (
                    untrusted.MOST_MATRIX_BYTES,
                    untrusted.MOST_NAMES_BYTES,
                    untrusted.MOST_LIST_BYTES,
                ),
            )
        ),
        "attributes of a domain": f"{untrusted.MOST_ATTRIBUTES:,}",
        "values of an attribute, or items": f"{untrusted.MOST_LABELS:,} "
        f"({untrusted.MOST_DOMAIN_LABELS:,} in a domain)",
        "cuts or edges of a number": f"{untrusted.MOST_CUTS:,}",
        "digits of a fraction": f"{digits} above, {digits} below",
        "copies of a record; cutoff; cells of a matrix": f"{untrusted.MOST_COPIES:,}; "
        f"{untrusted.MOST_CUTOFF}; {matrix.MOST_CELLS:,}",
        "a CSV header; its columns": f"{megabytes(limits.MOST_HEADER)}; {limits.MOST_COLUMNS:,}",
        "a basket": megabytes(limits.MOST_LINE_BYTES),
        "unzipped text": f"{megabytes(limits.SMALL_TEXT)}, or {limits.MOST_UNZIPPED} times "
        "its size",
        "a table in memory": f"{megabytes(limits.SMALL_TABLE)}, or {limits.MOST_HELD} times "
        "its file",
        "rows of a Parquet file": f"{limits.SMALL_ROWS // 1_000_000} million, or "
        f"{limits.MOST_ROWS:,} a byte",
        "one statement of DuckDB on a received database": f"{STATEMENT_SECONDS:.0f} s, "
        f"{str(duckdb.RECEIVED['memory_limit']).replace('MB', ' MB')}",
    }


def test_counts_add_up_as_the_page_says() -> None:
    assert "Over all groups of one question they do, up to rounding" in page("about/faq.md")
    people, schema = survey(5_000, sf.seeded(1))
    few = schema.project(["smoker", "exercise"])
    several = ("mask", "cut-and-paste", "unary", "hadamard")  # each value by itself
    for name in (*several, "gamma-diagonal", "retention", "questionnaire", "subset-selection"):
        mechanism = mechanism_class(name).promising(sf.Guarantee(19), few)
        release = sf.perturb(people, mechanism, rng=sf.seeded(1))
        found = release.marginal(["exercise"]).to_dict()["count"]
        assert sum(found) == pytest.approx(5_000), name


def test_a_description_says_what_the_page_of_files_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.csv").write_text("smoker\nyes\nno\n")
    line = ["perturb", "p.csv", "--gamma", "19", "--mechanism", "gamma-diagonal", "-o", "r.csv"]
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, line).exit_code == 0
    found = json.loads((tmp_path / "r.csv.sfumato.json").read_text())
    told = page("reference/files.md").partition("| field |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in told.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall("`([a-z]+)`", cell)]
    assert {*names} == found.keys()


def test_every_status_and_kind_of_the_server_is_on_its_page() -> None:
    told = page("collector/http.md")
    sources = (ROOT / "src/sfumato/collect/server").glob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    found = re.findall(r'RefusalError\(\s*(\d{3})[^"]*?,?\s*"([a-z]+)"', text)
    assert len({*found}) > 12
    for status, kind in found:
        lines = [line for line in told.splitlines() if re.search(rf"^\| [\d, ]*{status}", line)]
        assert any(f"`{kind}`" in line for line in lines), (status, kind)


def test_the_limits_that_operators_are_told_are_those_of_the_server() -> None:
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    from sfumato.collect import campaign
    from sfumato.collect.server import limits, protocol
    from sfumato.collect.writer import MOST_WAITING

    told = page("collector/operator.md").partition("## Limits")[2].partition("## Tokens")[0]
    head, body = protocol.HEADER_BYTES >> 10, campaign.MOST_BYTES >> 10
    waits = (protocol.HEADER_SECONDS, protocol.BODY_SECONDS, protocol.KEEP_ALIVE_SECONDS)
    for line in (
        f"| address and headers | {head} KB, {waits[0]:.0f} s |",
        f"| body | {body} KB, {campaign.MOST_REPORTS:,} reports, {waits[1]:.0f} s |",
        f"| connections | {protocol.MOST_CONNECTIONS:,}, of which ",
        f"; kept alive for {waits[2]} s. Behind `--trust-proxy`",
        f"| reports | {limits.PER_MINUTE} per minute from one network",
        f"| queue | {MOST_WAITING:,} reports, then 503",
    ):
        assert line in told, line
    assert f"up to {campaign.MOST_IDS} ids" in page("collector/http.md")


def test_the_layers_of_the_design_stand_in_the_order_that_is_kept() -> None:
    kept = re.findall(r'"([a-z_]+)"', re.search(r"LAYERS = \((.*?)\n\)", layers(), re.S)[1])
    named = page("design.md").partition("## The layers")[2].split("```")[1].split()
    assert [kept.index(name) for name in named] == sorted(kept.index(name) for name in named)
    assert {"mechanisms", "api", "renderers", "cli"} <= {*named}


def layers() -> str:
    return (ROOT / "tests" / "test_layers.py").read_text(encoding="utf-8")


# The formulas of the theory, by small dense matrices.


@pytest.mark.parametrize(("n", "m", "gamma"), [(12, 3, 19), (2000, 2, 19), (6, 6, 5)])
def test_the_inverse_of_a_marginal_of_gamma_diagonal(n: int, m: int, gamma: int) -> None:
    kappa = (gamma - 1) / (gamma + n - 1)
    inverse = np.linalg.inv(kappa * np.eye(m) + (1 - kappa) / m)
    assert inverse[0, 1] == pytest.approx(-(n / m) / (gamma - 1))
    assert inverse[0, 0] == pytest.approx((gamma + n - 1 - n / m) / (gamma - 1))
    assert "−(n/m)/(γ−1)" in page("theory.md") and "(γ+n−1−n/m)/(γ−1)" in page("theory.md")


@pytest.mark.parametrize(("spread", "second"), [(0.5, False), (0.9999, True)])
def test_what_a_revealed_diagonal_would_promise(spread: float, second: bool) -> None:
    n, gamma = 100, 19
    mechanism = RandomizedGamma(Domain((Category("a", tuple(map(str, range(n)))),)), gamma, spread)
    x = 1 / (gamma + n - 1)
    alpha = spread * gamma * x
    first = (gamma * x + alpha) / (x - alpha / (n - 1))
    other = (x + alpha / (n - 1)) / (gamma * x - alpha)
    assert (other > first) is second
    assert float(mechanism.revealed.gamma) == pytest.approx(max(first, other), rel=1e-3)
    assert "(x+α/(n−1))/(γx−α)" in page("theory.md")


@pytest.mark.parametrize(("sizes", "power"), [((2, 3), 4), ((2,), 2)])
def test_the_guarantee_of_kept_bits_is_the_largest_ratio(
    sizes: tuple[int, ...], power: int
) -> None:
    keep = Fraction(3, 4)
    records = [
        tuple(
            int(value == own)
            for size, own in zip(sizes, each, strict=True)
            for value in range(size)
        )
        for each in product(*map(range, sizes))
    ]

    def chance(report: tuple[int, ...], record: tuple[int, ...]) -> Fraction:
        same = sum(a == b for a, b in zip(report, record, strict=True))
        return keep**same * (1 - keep) ** (len(report) - same)

    worst = max(
        chance(report, one) / chance(report, other)
        for report in product((0, 1), repeat=sum(sizes))
        for one, other in product(records, repeat=2)
    )
    assert worst == (keep / (1 - keep)) ** power == (keep / (1 - keep)) ** (2 * len(sizes))


@pytest.mark.parametrize(("m", "t", "gamma"), [(2, 8, 19), (3, 9, 5)])
def test_the_variances_of_one_symbol_are_those_of_its_reports(m: int, t: int, gamma: int) -> None:
    d = t
    none = Fraction(1, m * gamma + d)  # of a candidate that a person does not hold
    scale = Fraction(m * gamma + d, gamma - 1)  # of a share of reports, in the estimate
    direct = none * scale**2  # of a rare one, the square of `none` left out
    assert direct == Fraction(d + m * gamma, (gamma - 1) ** 2)
    total = m * gamma + t - m
    hit = Fraction(1, t)
    apart = Fraction(gamma, total) - hit
    assert hit * (1 - hit) / apart**2 == Fraction(
        (t - 1) * total**2, (t - m) ** 2 * (gamma - 1) ** 2
    )
    assert len(tiers_above(8, 10_000)) == TIERS == 6 and "at most six" in page("theory.md")


def test_how_well_single_questions_tell_single_values(data_dir: Path) -> None:
    """The errors that the theory states of CENSUS: computed, and measured by perturbation."""
    people, domain = census(data_dir)
    records = sf.read(people, domain)
    truth = [counts(sf.Exact(records), name) / records.rows for name in domain.names]

    def error(shares: np.ndarray) -> float:
        return 100 * float(np.concatenate([*map(one, truth, shares)]).mean())

    def one(law: np.ndarray, share: float) -> np.ndarray:
        kept, other = 18 / (18 + len(law)), 1 / (18 + len(law))
        seen = other + kept * law
        noise = seen * (1 - seen) / (kept**2 * share) - law * (1 - law)  # of those asked and others
        return (np.sqrt(2 / np.pi * noise / records.rows) / law)[law >= 0.02]

    even = np.full(len(truth), 1 / len(truth))
    found = minimize(lambda x: error(np.exp(x) / np.exp(x).sum()), 0 * even, method="BFGS")
    assert f"err by {found.fun:.1f} % on average if *everyone*" in page("theory.md")
    assert f"by {error(even):.1f} % with even shares" in page("theory.md")
    mechanism = sf.Questionnaire.promising(sf.Guarantee(19), domain, questions="singles:1")
    runs = [
        np.concatenate(
            [
                (abs(counts(release, name) / records.rows - law) / law)[law >= 0.02]
                for name, law in zip(domain.names, truth, strict=True)
            ]
        ).mean()
        for release in (sf.perturb(records, mechanism, rng=sf.seeded(s)) for s in range(8))
    ]
    assert 100 * np.mean(runs) == pytest.approx(error(even), abs=0.7)  # 0.17 is its own error


def counts(source: sf.Exact | sf.Release, name: str) -> np.ndarray:
    return np.array(source.marginal([name]).to_dict()["count"])
