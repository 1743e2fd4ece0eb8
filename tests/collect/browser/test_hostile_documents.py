"""Campaign documents that nobody would write: what Python and the browser make of each is the same,
or one of them refuses it before anything is drawn.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.collect.browser.collector import STATIC, document
from tests.collect.browser.surveys import coin, everything, health, questionnaire

from sfumato.collect.canonical import digest
from sfumato.collect.client import Survey
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import SfumatoError
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.untrusted import refuse_malformed

NUMBER = 400
VALUES = (
    None, -1, 0, 1, 2, 255, 2**16, 2**16 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**53 - 1, 2**53, 2**64,
    1e308, -1e308, 0.5, 5e-324, -0.0, True, False, "", "x", "19", "19/1", "1/0", "0/1", "1e9",
    str(2**64 - 1), str(2**64), "9" * 128 + "/1", "9" * 129 + "/1", "19/1\n", "__proto__", "size",
    [], {}, [0], [[]], [None], {"step": "kary"},
)  # fmt: skip
NODE = """
import { readFileSync } from "node:fs";
const { Survey, SfumatoError } = await import(process.argv[1]);
const address = new URL("http://a.org/v1/campaigns/c");
const free = { atMost: Infinity, public: null, budget: Infinity };
const judged = (campaign) => {
  try {
    const { gamma, sentAsIs } = new Survey(address, campaign, free);
    return [gamma.map((part) => `0x${part.toString(16)}`), [...sentAsIs].sort()];
  } catch (error) {
    return error instanceof SfumatoError ? error.kind : "fault";
  }
};
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf-8")).map(judged)));
"""


def bases() -> list[dict[str, Any]]:
    promise, items = Guarantee(19), Domain((Items("b", tuple("abcdefgh")),))
    cells = Domain((Category("x", ("a", "b", "c")), Category("y", ("u", "v"))))
    made = [("item-set", items), ("mask", items), ("questionnaire", cells), ("hadamard", cells),
            ("retention", cells), ("square-wave", Domain((Numeric("n", 0, 99),)))]  # fmt: skip
    drawn = [document(mechanism_class(name).promising(promise, domain)) for name, domain in made]
    return [health(), coin(), everything(), questionnaire(), *drawn]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else parts:
        yield from paths(part, (*path, key))


def changed(base: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The document with one to three of its values replaced, taken out, doubled or moved by one."""
    found = copy.deepcopy(base)
    for _ in range(rng.choice((1, 1, 2, 3))):
        root = rng.choice(("domain", "program", "program", "promise", "budget", "round"))
        if root not in found:
            continue
        place = rng.choice(list(paths(found[root], (root,))))
        parent = found
        for key in place[:-1]:
            parent = parent[key]
        key, value = place[-1], parent[place[-1]]
        how = rng.random()
        if isinstance(value, int) and how < 0.3:
            parent[key] = value + rng.choice((-1, 1))
        elif how < 0.7:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
        elif how < 0.85 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(value))
        else:
            parent.pop(key)
    return json.loads(json.dumps(found))


def judged(stated: dict[str, Any]) -> Any:
    """Gamma and what is sent as it is, or why it is refused."""
    try:
        with refuse_malformed("the campaign"):
            hashed = {name: stated[name] for name in ("domain", "program", "round")}
            survey = Survey({**stated, "hash": digest(hashed)})
            gamma = survey.guarantee.gamma.as_integer_ratio()
            return [*gamma], sorted(survey.sent_as_is)
    except SfumatoError as error:
        return str(error)


def test_python_and_the_browser_say_the_same_of_every_document(node: str) -> None:
    rng, known = random.Random(31), bases()
    stated = [*known, *(changed(rng.choice(known), rng) for _ in range(NUMBER))]
    done = subprocess.run(
        [node, "--input-type=module", "-e", NODE, (STATIC / "sfumato.js").as_uri()],
        input=json.dumps(stated), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    outcomes: Counter[str] = Counter()
    for ours, theirs in zip(map(judged, stated), json.loads(done.stdout), strict=True):
        if isinstance(ours, str):
            # What columns and values are called the browser reads less closely: it leaks nothing.
            named = "attribute" in ours or "schema" in ours or "sizes" in ours or "budget" in ours
            assert isinstance(theirs, str) or named, ours
            outcomes["refused"] += 1
        else:
            (n, d), sent = ours
            assert not isinstance(theirs, str), theirs
            (m, e), also = theirs
            assert n * int(e, 16) == d * int(m, 16) and sent == also
            outcomes["taken"] += 1
    assert outcomes["taken"] >= len(known) + 30 and outcomes["refused"] >= 100, outcomes
