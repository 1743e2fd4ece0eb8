"""`sfumato identify`: which of a data owner's records can be told apart, and by what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Force, Json
from sfumato.cli.owner import (
    Bin,
    Confidential,
    Data,
    DossierFile,
    Keys,
    Nulls,
    Plot,
    check_targets,
    read_records,
    write_dossier,
)
from sfumato.cli.pages import bars_told, owners_origin, save_page
from sfumato.cli.printing import print_facts, print_json, print_table, print_words, telling
from sfumato.printable import percent
from sfumato.publish.dossier import identification_dossier
from sfumato.publish.identify import Identification
from sfumato.publish.identify import identify as identify_records
from sfumato.publish.population import PopulationRisk
from sfumato.report import Block, Facts, Heading, Listing, Picture, save_figure

DRAWN = 8


def identify(
    data: Data,
    confidential: Confidential,
    keys: Keys = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="A", help="The column that says how many people each record stands for."
        ),
    ] = None,
    population: Annotated[
        float | None,
        typer.Option(metavar="N", help="How many people the records are a sample of."),
    ] = None,
    bins: Annotated[
        int, typer.Option(help="How many bins to try when asking what binning a column would save.")
    ] = 4,
    dossier: DossierFile = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Which records can be told apart by their keys, and which columns give them away.

    Where the records are a sample, --weights or --population also tells how many are unique in the
    population, and how often a match would be right.

    Example: sfumato identify adult.csv --confidential income --bin age=frequency:5
    """
    options = dict(locals())
    check_targets(options)
    beside = [] if weights is None else [weights]
    records, asked = read_records(data, confidential, keys, bin, nulls, beside=beside)
    asked |= {"weights": weights, "population": population}
    with telling() as progress:
        found = identify_records(records, try_bins=bins, progress=progress, **asked)
    write_dossier(identification_dossier(found), options, keys=list(asked["keys"]))
    if plot is not None:
        draw_identification(found, data, plot)
    print_json(found.to_dict()) if json else print_identification(found)


def print_identification(found: Identification) -> None:
    """Risk by confidential column, and what each key gives away."""
    for name, risk in zip(found.confidential, found.risks, strict=True):
        print_words(f"{risk.records:,} records, confidential: {name}")
        print_facts(
            [
                ("unique", f"{risk.unique:,}"),
                ("collective", f"{risk.collective:,} in {risk.groups:,} groups"),
                ("unidentifiable", f"{risk.unidentifiable:,}"),
                ("k-anonymity", str(risk.k_anonymity)),
                ("l-diversity", f"{risk.l_diversity} (by entropy {risk.entropy_l_diversity:.2f})"),
                ("sample uniques", f"{risk.sample_uniques:,}"),
                ("mean group", f"{risk.mean_group:.2f}"),
            ]
        )
    if found.population is not None:
        print_words(f"\n{_as_a_sample(found.population)}")
        print_facts(_population_facts(found.population))
    lines = [
        (
            role.name,
            str(role.values),
            f"{role.saved_by_dropping:,}",
            "–"
            if role.saved_by_binning is None
            else f"{role.saved_by_binning:,} ({role.bins} bins)",
        )
        for role in found.columns
    ]
    print("\nidentifiable records that each key would save")
    print_table(("key", "values", "if dropped", "if binned"), lines, left=1)


def _as_a_sample(population: PopulationRisk) -> str:
    return f"as a sample of {population.size:,.0f} people ({percent(population.fraction, 3)})"


def _population_facts(population: PopulationRisk) -> list[tuple[str, str]]:
    """What the keys of a sample say of its population."""
    right = population.right_matches
    return [
        (
            "a unique match is right with",
            "–" if right is None else f"{right.value:.3f} ± {right.stderr:.3f}",
        ),
        (
            "unique in the population",
            f"about {population.population_uniques:,.0f} of {population.sample_uniques:,} "
            "(were keys independent)",
        ),
        ("right matches expected", f"about {population.expected_matches:,.0f}"),
        ("chance above a tenth", f"{population.risky:,} records"),
        ("right matches by weights alone", f"{population.weighted_matches:,.1f}"),
    ]


def draw_identification(found: Identification, data: str, path: Path) -> None:
    """What each key gives away: identifiable records with it, and without it; on a page with the
    figures of the risk.
    """
    axes = found.plot(most=DRAWN)
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    drawn = found.columns[:DRAWN]
    alt = bars_told(
        "identifiable records",
        [f"without {role.name}" for role in drawn],
        [found.risk.identifiable] * len(drawn),
        [role.identifiable_if_dropped for role in drawn],
        ("with all keys", "without this one"),
    )
    caption = "Identifiable records with every key, and without one of them"
    blocks: list[Block] = [Picture.of(axes, caption, alt=alt)]
    for name, risk in zip(found.confidential, found.risks, strict=True):
        facts = [(_measure(what), value) for what, value in risk.to_dict().items()]
        blocks += [Heading(f"Confidential: {name}"), Facts(facts)]
    if found.population is not None:
        blocks += [
            Heading(_as_a_sample(found.population).capitalize()),
            Facts(_population_facts(found.population)),
        ]
    keys = [
        (role.name, role.values, role.saved_by_dropping, role.saved_by_binning)
        for role in found.columns
    ]
    heads = ("key", "values", "saved if dropped", "saved if binned")
    blocks.append(Listing(heads, keys, "Identifiable records that each key would save"))
    method = "none: the true records were looked at, nothing was changed"
    promised = "none: this page describes true records and is for their owner"
    origin = owners_origin(data, found.risk.records, method, promised)
    save_page("Identifiable records", blocks, origin, path)


def _measure(name: str) -> str:
    """A measure of risk as people write it.

    >>> _measure("entropy_l_diversity"), _measure("sample_uniques")
    ('entropy l-diversity', 'sample uniques')
    """
    return name.replace("_", " ").replace("k anon", "k-anon").replace("l div", "l-div")
