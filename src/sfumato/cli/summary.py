"""What a perturbed table promises and holds, in the JSON shape of `perturb` and `describe`, and in
words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sfumato.channels import conditioning
from sfumato.cli.printing import value_labels
from sfumato.errors import EstimationError, ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import mechanism_class
from sfumato.printable import json_number, upwards
from sfumato.privacy.guarantee import PRIOR, Guarantee, rounded_up
from sfumato.table import Provenance

MOST_AXES = 2000  # whose condition number is computed


def summarise(provenance: Provenance, rows: int, prior: float = PRIOR) -> dict[str, Any]:
    """The JSON object of a perturbed table; what is infinite or unknown is null, and `promises`
    says it in words.
    """
    mechanism, guarantee = provenance.mechanism, provenance.guarantee
    return {
        "rows": rows,
        "mechanism": mechanism.name,
        "gamma": _gamma(guarantee),
        "epsilon": json_number(guarantee.epsilon),
        "worst_posterior": {"rho1": prior, "rho2": guarantee.worst_posterior(prior)},
        "promises": promise(guarantee, prior),
        "condition": condition(mechanism),
        "secure": provenance.secure,
        "shuffled": provenance.shuffled,
        "release": provenance.release,
        "copies": provenance.copies,
        "gamma_per_copy": _gamma(mechanism.guarantee),
        "parameters": _short_parameters(mechanism),
        **mechanism.details,
        "domain": {attribute.name: list(value_labels(attribute)) for attribute in mechanism.domain},
        "public": [attribute.name for attribute in mechanism.domain if attribute.public],
        "caveats": caveats(provenance),
        "not_covered": not_covered(provenance),
    }


def promise(guarantee: Guarantee, prior: float) -> str:
    """The guarantee as a sentence about beliefs.

    >>> from sfumato.privacy.guarantee import Guarantee
    >>> promise(Guarantee(19), 0.05)
    'someone who believed 5 % before sees at most 50 % after'
    """
    if math.isinf(guarantee.epsilon):
        return "nothing: a report may prove what the record was"
    return (
        f"someone who believed {100 * prior:.3g} % before sees at most "
        f"{guarantee.posterior_words(prior)} after"
    )


def condition(mechanism: Mechanism) -> float | None:
    """The condition number of the channel; None where it is infinite or the channel is too large to
    write down.
    """
    if len(mechanism.domain.axes) > MOST_AXES:
        return None
    try:
        return json_number(conditioning.condition(mechanism.private_channel))
    except (EstimationError, ParameterError, OverflowError):
        return None


def caveats(provenance: Provenance) -> list[str]:
    """What the promise does not cover."""
    found = list(provenance.mechanism.caveats)
    public = [attribute.name for attribute in provenance.mechanism.domain if attribute.public]
    if public:
        found.append(
            f"public columns are sent as they are, outside the guarantee: {', '.join(public)}"
        )
    if not provenance.secure:
        found.append(
            "drawn from a seed: an experiment, not private, for whoever knows the seed can undo it"
        )
    if not provenance.shuffled:
        found.append(
            "the reports stand in the order of the records: what that order tells (sorted by a "
            "column, by time) is outside the guarantee"
        )
    found += provenance.told
    if provenance.release is None and not provenance.told:
        found.append(
            "it has no release id (version 0.1.0 gave none), so nothing but the number of rows "
            "ties it to its description"
        )
    return found


def not_covered(provenance: Provenance) -> list[str]:
    """What no mechanism's promise covers, whatever its parameters, and what it assumes."""
    return [
        "further reports of the same person: each multiplies gamma"
        + (
            f" (here {provenance.copies} reports, already counted in)"
            if provenance.copies > 1
            else ""
        ),
        "what the statistics of the crowd say about anyone, in it or not",
        "records that depend on each other, such as relatives': the promise takes them as "
        "independent",
    ]


def facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The summary as names and values for people."""
    copies, rows = summary["copies"], summary["rows"]
    shown = [
        (
            "rows",
            f"{rows:,}"
            + (f" ({copies} reports of each of {rows // copies:,} records)" if copies > 1 else ""),
        )
    ]
    shown.append(("mechanism", summary["mechanism"]))
    asked = summary.get("questions")
    called = mechanism_class(summary["mechanism"]).called
    shown += [
        (
            called.get(name, name.replace("_", " ")),
            _parameter(_as_read(summary, name) or value),
        )
        for name, value in summary["parameters"].items()
        if asked is None or name != "questions"
    ]
    if asked is not None:
        shown.append(("questions", _questions(asked)))
    shown.append(("guarantee", _guarantee(summary["gamma"], summary["epsilon"])))
    if copies > 1:
        one = summary["gamma_per_copy"]
        shown.append(("", f"of one report alone: gamma {_number(one and upwards(one))}"))
    shown.append(("promises", summary["promises"]))
    if summary["condition"]:
        shown.append(("condition", _number(summary["condition"])))
    shown.append(
        ("randomness", "secure" if summary["secure"] else "seeded: an experiment, not private")
    )
    shown.append(("order", "shuffled" if summary["shuffled"] else "that of the records"))
    shown += [("caveat", caveat) for caveat in summary["caveats"]]
    return shown + [("not covered", words) for words in summary["not_covered"]]


# Parameters that are codes in the file, by what says them in the columns' own words and numbers.
READ_AS = {
    "candidates": "candidates",
    "lengths": "window_widths",
    "starts": "starts_at",
    "upper": "upper_from",
    "waves": "asked",
}


def _as_read(summary: dict[str, Any], name: str) -> Any:
    """A parameter as people read it, where its mechanism says it; None elsewhere."""
    found = summary.get(READ_AS.get(name, ""))
    if name == "waves" and found:
        return {what: f"{100 * share:.3g} %" for what, share in found.items()}
    return found


def _gamma(guarantee: Guarantee) -> float | None:

    return json_number(rounded_up(guarantee.gamma))


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4g}" if value < 1e6 else f"{value:.3e}"


def _guarantee(gamma: float | None, epsilon: float | None) -> str:
    if gamma is None and epsilon is not None:  # a whole basket's gamma can be too large for a float
        return f"gamma e^{upwards(epsilon):.4g} (epsilon {upwards(epsilon):.4g})"
    shown = [_number(value and upwards(value)) for value in (gamma, epsilon)]
    return f"gamma {shown[0]} (epsilon {shown[1]})"


def _parameter(value: Any, *, within: bool = False) -> str:
    """A parameter as people write it; fractions, which are exact in the file, to four figures, and
    lists within a list as one thing each.

    >>> _parameter([[0], [1], [0, 1]]), _parameter("1/3")
    ('0, 1, 0 + 1', '0.3333')
    """
    if isinstance(value, dict):
        alike = {_parameter(entry) for entry in value.values()}
        if len(value) > 1 and len(alike) == 1:  # said once, not once a column
            return f"{alike.pop()} for all {len(value)} columns"
        return ", ".join(f"{name} {_parameter(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return (" + " if within else ", ").join(_parameter(entry, within=True) for entry in value)
    if isinstance(value, str) and "/" in value and value.replace("/", "").isdigit():
        numerator, _, denominator = value.partition("/")
        return f"{int(numerator) / int(denominator):.4g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _questions(asked: Sequence[dict[str, Any]]) -> str:
    """The questions that are dealt, by how many columns they join.

    >>> _questions([{"columns": ["a"], "share": 0.5}, {"columns": ["a", "b"], "share": 0.5}])
    '1 about one column (50 %), 1 about 2 at once (50 %)'
    """
    shares: dict[int, list[float]] = {}
    for each in asked:
        shares.setdefault(len(each["columns"]), []).append(each["share"])
    return ", ".join(
        f"{len(own)} about {'one column' if size == 1 else f'{size} at once'} "
        f"({100 * sum(own):.0f} %)"
        for size, own in sorted(shares.items())
    )


def _short_parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The public parameters, without tables too long to read; gamma has a place of its own."""
    given = mechanism.parameters()
    return {
        name: value
        for name, value in given.items()
        if name != "gamma"
        and not (isinstance(value, list | dict) and len(value) > 200)
        and len(str(value)) <= 400
    }


def model_facts(described: dict[str, Any]) -> list[tuple[str, str]]:
    """What a model is, as names and values for people."""
    origin = described["fitted_to"]
    shown = [
        ("law", f"log-linear, interactions of up to {described['order']} columns"),
        ("", described["law"]),
        ("fitted to", f"{origin['rows']:,} reports of {origin['mechanism']}"),
        ("columns", ", ".join(described["columns"])),
    ]
    return [*shown, *([("written", described["written"])] if "written" in described else [])]
