"""The JavaScript interpreter: the same reports from the same bytes in Python, Node and Chromium,
the same γ, the same refusals; and the law, by counting in Chromium.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.collect.browser.collector import STATIC, Collector
from tests.collect.browser.scripts import run
from tests.collect.vectors.vectors import INTEGERS, VECTORS, integers, made, records, written
from tests.mechanisms.outcomes import report_law
from tests.mechanisms.programs import CASES, STEPS, Case
from tests.mechanisms.test_program import CHANGES, COUNTED, DIAGONAL, off_by_one

from sfumato.errors import SfumatoError
from sfumato.mechanisms.program import Program
from sfumato.printable import downwards, upwards
from sfumato.privacy.guarantee import Guarantee
from sfumato.testing import fit

RUNNER = VECTORS.parent / "run.mjs"
pytestmark = pytest.mark.xdist_group("browser")


def test_the_stored_vectors_are_those_of_the_reference() -> None:
    """What was sent for given bytes stays so: a report drawn last year can be drawn again."""
    now = {each["name"]: each for each in made()}
    stored = json.loads(VECTORS.read_text(encoding="utf-8"))
    changed = [each["name"] for each in stored if now.get(each["name"]) != each]
    assert changed == [], "if the change is meant: python -m tests.collect.vectors"
    assert {case.name for case in STEPS} <= {each["name"] for each in stored}
    assert integers() == json.loads(INTEGERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vectors of every mechanism that there is today, and how to run them."""
    folder = tmp_path_factory.mktemp("of-today") / "vectors"
    folder.mkdir()
    (folder / "vectors.json").write_text(written(made()), encoding="utf-8")
    for name in ("integers.json", "run.mjs"):
        (folder / name).write_bytes((VECTORS.parent / name).read_bytes())
    return folder


STATED = """
import { readFileSync } from "node:fs";
const { stated } = await import(process.argv[1]);
const gammas = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(gammas.map((gamma) => {
  const { gamma: g, epsilon, posterior } = stated(gamma.map(BigInt));
  return [g, epsilon, posterior];
})));
"""


def test_node_states_a_promise_as_python_does(node: str) -> None:
    draw = np.random.default_rng(30)
    over = 10.0 ** draw.uniform(-12, 9, 500)
    gammas = [1 + Fraction(value) for value in over] + [
        Guarantee.from_epsilon(epsilon / 4).gamma for epsilon in range(1, 41)
    ]
    gammas += [Fraction(65537, 65521) ** 1100]  # of more digits than Python writes
    gammas += [Fraction(19), Fraction(1900004, 100_000), 1 + Fraction(1, 1 << 60), Fraction(1881)]
    ratios = [Fraction(gamma).as_integer_ratio() for gamma in gammas]
    done = subprocess.run(
        [node, "--input-type=module", "-e", STATED, (STATIC / "program.js").as_uri()],
        input=json.dumps([[hex(n), hex(d)] for n, d in ratios]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    promises = [Guarantee(Fraction(*ratio)) for ratio in ratios]
    assert json.loads(done.stdout) == [
        [
            float(each.gamma_words),
            float(each.epsilon_words),
            float(each.posterior_words().removesuffix(" %")),
        ]
        for each in promises
    ]


ROUNDED = """
import { readFileSync } from "node:fs";
const { rounded } = await import(process.argv[1]);
const values = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(values.map((value) => [rounded(value), rounded(value, true)])));
"""


def test_node_rounds_costs_up_and_what_is_left_down_as_python_does(node: str) -> None:
    draw = np.random.default_rng(31)
    values = [0.0, 6.0, 10.9996, 19.999, 6 - 5.9, 12345.6, *(10.0 ** draw.uniform(-4, 6, 500))]
    done = subprocess.run(
        [node, "--input-type=module", "-e", ROUNDED, (STATIC / "program.js").as_uri()],
        input=json.dumps(values), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found == [pytest.approx([upwards(v), downwards(v)], rel=1e-12) for v in values]
    assert all(down <= v * (1 + 1e-14) and up >= v * (1 - 1e-14)
               for v, (up, down) in zip(values, found, strict=True))  # fmt: skip
    assert found[2:4] == [[11, 10.99], [20, 19.99]]


@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_node_makes_the_same_reports_of_the_same_bytes(
    node: str, vectors: Path, chunk: int
) -> None:
    command = [node, str(RUNNER), str(STATIC / "program.js"), str(vectors), str(chunk)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(done.stdout) == {"records": 200 * len(CASES), "found": []}


@pytest.fixture(scope="module")
def page(chromium: Any, vectors: Path) -> Iterator[Any]:
    """A page that may import the library and the vectors."""
    with Collector({}, pages={"/": b"<!doctype html>"}, folders=(vectors,)) as collector:
        chromium.get(collector.origin)
        yield chromium


@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_chromium_makes_the_same_reports_of_the_same_bytes(page: Any, chunk: int) -> None:
    body = """
    const { mismatches } = await import("/vectors/run.mjs");
    const library = await import("/static/program.js");
    const [cases, integers] = await Promise.all(["vectors", "integers"].map(async (name) =>
      (await fetch(`/vectors/${name}.json`)).json()));
    return { found: await mismatches(cases, integers, library, given[0]),
             records: cases.flatMap((each) => each.records).length };
    """
    assert run(page, body, chunk) == {"found": [], "records": 200 * len(CASES)}


MUTANTS = {
    "a bound off by one": ("draws.below(s.total), s.scale", "draws.below(s.total - 1), s.scale"),
    "a threshold off by one": ("draws.chance(s.keep, 4)", "draws.chance(s.keep + 1, 4)"),
    "bytes in the other order": ("* 256 ** i", "* 256 ** (bytes - 1 - i)"),
    "a refill that loses a byte": ("[this.refill(), 0]", "[this.refill(), 1]"),
    "no rejection": ("if (low >= base % n)", "if (low >= 0)"),
    "the last column slowest": ("s.sizes.slice(i + 1)", "s.sizes.slice(0, i)"),
    "a gamma without its public step": ("gamma: () => fraction(1),", "gamma: () => fraction(2),"),
    "a size that is not seen": ('s.items + 1), "size")', 's.items + 1), "set")'),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_bug_in_the_interpreter_is_caught_by_the_vectors(
    node: str, mutant: str, tmp_path: Path
) -> None:
    """A threshold one too high shows in one draw of four billion, so that one is caught by its law:
    a program whose keep is 0 must never keep.
    """
    right, wrong = MUTANTS[mutant]
    texts = {
        name: (STATIC / name).read_text(encoding="utf-8") for name in ("steps.js", "program.js")
    }
    assert sum(text.count(right) for text in texts.values()) == 1
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace(right, wrong), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    command = [node, str(RUNNER), str(tmp_path / "program.js"), str(VECTORS.parent), "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    caught = done.returncode != 0 or json.loads(done.stdout)["found"]
    assert caught or (mutant == "a threshold off by one" and kept_at_zero(node, tmp_path))


def kept_at_zero(node: str, folder: Path) -> bool:
    """Whether a column that is never kept is kept when the word drawn is 0."""
    script = """
    const { Program, Draws } = await import(process.argv[1]);
    const step = { step: "retain", columns: [0], reports: [0], size: 2, keep: 0 };
    const draws = new Draws(() => new Uint8Array([0, 0, 0, 0, 255, 127]));
    console.log(new Program({ version: 1, steps: [step] }).randomise([1], draws)[0] === 1);
    """
    command = [node, "--input-type=module", "-e", script, str(folder / "program.js")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip() == "true"


def test_the_interpreter_itself_does_not_keep_at_zero(node: str) -> None:
    assert not kept_at_zero(node, STATIC)


# --- refusals and γ of programs that are wrong


def damaged() -> list[Any]:
    """Programs with something wrong in them: an integer off by one, a field missing, doubled, of
    another type, a step twice or not at all. (A whole number written 21.0 is one in JavaScript.)
    """
    found = [change({"version": 1, "steps": [DIAGONAL]}) for change in CHANGES]
    found = [data for data in found if ".0" not in json.dumps(data)]
    rng = np.random.default_rng(7)
    for case in CASES:
        data = case.program.to_dict()
        changed = list(off_by_one(data["steps"]))
        chosen = rng.choice(len(changed), min(25, len(changed)), replace=False)
        found += [data | {"steps": changed[place]} for place in sorted(chosen)]
        found += [data | {"steps": steps} for steps in _reshaped(data["steps"])]
    return found


def _reshaped(steps: list[dict[str, Any]]) -> Iterator[list[Any]]:
    first, *rest = steps
    for name, value in first.items():
        yield [{key: each for key, each in first.items() if key != name}, *rest]
        for wrong in (0, -1, 1.5, "1", None, True, [], [0], [[0]], [value], 1 << 60, "1" * 30):
            yield [{**first, name: wrong}, *rest]
    yield [first, first, *rest]
    yield rest
    yield [{**first, "extra": 1}, *rest]
    yield [{**first, "columns": [place + 1 for place in first["columns"]]}, *rest]
    yield [{**first, "reports": list(reversed(first["reports"]))}, *rest]


def verdict(data: Any) -> str:
    """γ of a program, or that it is refused."""
    try:
        program = Program.from_dict(data)
        gamma = program.gamma_beside(program.sent_as_is)
    except SfumatoError:
        return "refused"
    if gamma == float("inf"):
        return "infinite"
    exact = Fraction(gamma)
    return f"{exact.numerator}/{exact.denominator}"


def test_both_interpreters_refuse_the_same_programs_and_find_the_same_gamma(
    node: str, tmp_path: Path
) -> None:
    programs = damaged()
    (tmp_path / "programs.json").write_text(json.dumps(programs), encoding="utf-8")
    script = """
    const { readFileSync } = await import("node:fs");
    const { Program, SfumatoError } = await import(process.argv[1]);
    const divisor = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };
    const verdicts = JSON.parse(readFileSync(process.argv[2], "utf-8")).map((data) => {
      try {
        const program = new Program(data);
        const [n, d] = program.gammaBeside(program.sentAsIs);
        const common = divisor(n, d);
        return d ? `${n / common}/${d / common}` : "infinite";
      } catch (error) {
        if (error instanceof SfumatoError) return "refused";
        throw error;
      }
    });
    console.log(JSON.stringify(verdicts));
    """
    command = [node, "--input-type=module", "-e", script]
    command += [str(STATIC / "program.js"), str(tmp_path / "programs.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    ours = [verdict(data) for data in programs]
    theirs = json.loads(done.stdout)
    assert [(d, o, t) for d, o, t in zip(programs, ours, theirs, strict=True) if o != t][:3] == []
    assert len(programs) > 2000 and 200 < ours.count("refused") < len(programs) - 200


# --- the law, counted in Chromium

LEAST, SUSPECT = 1e-7, 1e-4
DRAW = """
const { Program, Draws } = await import("/static/program.js");
const [data, record, count] = given;
const [program, draws, found] = [new Program(data), new Draws(), {}];
for (let i = 0; i < count; i++) {
  const report = JSON.stringify(program.randomise(record, draws));
  found[report] = (found[report] ?? 0) + 1;
}
return found;
"""


def chance_of(page: Any, case: Case, draws: int, changed: dict[str, Any] | None = None) -> float:
    """The probability of reports as far from the exact law as those that Chromium draws."""
    program = case.program
    record = records(program)[0]
    law = report_law(program, record)
    found = run(page, DRAW, changed or program.to_dict(), record, draws)
    reports = [json.dumps(_listed(report), separators=(",", ":")) for report in law]
    assert set(found) <= set(reports)
    counts = np.array([[found.get(report, 0)] for report in reports])
    return fit(counts, np.array([[float(p)] for p in law.values()]) * draws)


def _listed(report: tuple[Any, ...]) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in report]


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.name)
def test_reports_drawn_in_chromium_follow_the_exact_law(page: Any, case: Case) -> None:
    chance = chance_of(page, case, 400_000)
    assert chance > LEAST
    assert chance > SUSPECT or chance_of(page, case, 400_000) > SUSPECT


def test_a_law_five_per_cent_off_is_seen_in_chromium(page: Any) -> None:
    case = next(case for case in COUNTED if case.name == "gamma-diagonal")
    data = case.program.to_dict()
    (step,) = data["steps"]
    wrong = data | {"steps": [{**step, "scale": 20, "total": step["total"] * 20 + 4}]}
    assert chance_of(page, case, 400_000, wrong) < LEAST
