"""`sfumato generate`: synthetic baskets and records with known patterns in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.bits import Bits
from sfumato.cli.options import Force, Json, Output, argument, check_output, option
from sfumato.cli.printing import print_facts, print_json
from sfumato.datasets.quest import Quest
from sfumato.datasets.survey import survey as draw
from sfumato.errors import FileError
from sfumato.model.format import is_model
from sfumato.model.model_file import open_model
from sfumato.model.sampling import sample
from sfumato.randomness import seeded
from sfumato.table import Table, save, writer_to
from sfumato.table.formats import check_free, write_text
from sfumato.table.limits import BATCH_ROWS

generate = typer.Typer(
    help="Generate synthetic data: quest (baskets), survey (records), fitted (a model's records).",
    rich_markup_mode="rich",
)

Seed = Annotated[int, option("The same seed gives the same data.")]


@generate.command()
def quest(
    output: Output,
    name: Annotated[
        str, argument("As in the literature: T10.I4.D100K.N1K (L for patterns).", metavar="[NAME]")
    ] = "D100K",
    baskets: Annotated[int | None, option("How many baskets (D).")] = None,
    basket_size: Annotated[float | None, option("Their mean size (T).")] = None,
    pattern_size: Annotated[float | None, option("The mean size of a pattern (I).")] = None,
    items: Annotated[int | None, option("How many items (N).")] = None,
    patterns: Annotated[int | None, option("How many patterns (L).")] = None,
    correlation: Annotated[
        float | None, option("What a pattern shares with the one before it.")
    ] = None,
    corruption: Annotated[
        float | None, option("How much of a pattern is left out of a basket.")
    ] = None,
    corruption_variance: Annotated[float | None, option("How much that varies.")] = None,
    seed: Seed = 1,
    force: Force = False,
    json: Json = False,
) -> None:
    """Baskets by the IBM Quest generator (Agrawal and Srikant 1994).

    Example: sfumato generate quest T10.I4.D100K.N1K -o baskets.dat --seed 1
    """
    check_output(output, force, json)
    changes = {
        "baskets": baskets,
        "basket_size": basket_size,
        "pattern_size": pattern_size,
        "items": items,
        "patterns": patterns,
        "correlation": correlation,
        "corruption": corruption,
        "corruption_variance": corruption_variance,
    }
    recipe = Quest.from_name(
        name, **{key: value for key, value in changes.items() if value is not None}
    )
    made = recipe.generate(seeded(seed))
    _write_baskets(made, output, force)
    _report(
        {
            "rows": len(made),
            "output": str(output),
            "name": recipe.name,
            "items": recipe.items,
            "seed": seed,
        },
        json,
    )


@generate.command()
def survey(
    output: Output,
    rows: Annotated[int, option("How many people.")] = 10_000,
    schema: Annotated[Path | None, option("Write the schema here as well.", metavar="S")] = None,
    seed: Seed = 1,
    force: Force = False,
    json: Json = False,
) -> None:
    """A health survey whose attributes depend on one another as in a real population.

    Example: sfumato generate survey --rows 50000 -o survey.csv --schema survey.toml
    """
    check_output(output, force, json)
    if schema is not None:
        check_free(schema, force)
    records, domain = draw(rows, seeded(seed))
    save(Table.from_arrow(records, domain), output, force=force)
    if schema is not None:
        write_text(domain.to_toml(), schema)
    _report(
        {"rows": rows, "output": str(output), "columns": list(domain.names), "seed": seed}, json
    )


@generate.command()
def fitted(
    model: Annotated[str, argument("What sfumato fit wrote: records of its model.", "MODEL")],
    output: Output,
    rows: Annotated[int, option("How many records.")] = 10_000,
    seed: Seed = 1,
    force: Force = False,
    json: Json = False,
) -> None:
    """Records drawn from a fitted model: they resemble the crowd, and no one in it.

    A model knows the bins of numbers; each number is drawn evenly from those of its bin, so that
    the schema of the true records reads the synthetic ones too.

    Example: sfumato generate fitted census.model.json --rows 50000 -o synthetic.csv
    """
    check_output(output, force, json)
    if not Path(model).exists():
        raise FileError(f"no file '{model}'", hint="make one: sfumato fit RELEASE -o MODEL")
    if not is_model(model):
        raise FileError(f"'{model}' is no model", hint="make one: sfumato fit RELEASE -o MODEL")
    drawn = sample(open_model(model), rows, seeded(seed))
    save(drawn, output, force=force)
    names = list(drawn.domain.names)
    _report({"rows": rows, "output": str(output), "columns": names, "seed": seed}, json)


def _write_baskets(made: Any, output: Path, force: bool) -> None:
    """Write the baskets a run at a time, as all of them as bits would take much memory."""
    with writer_to(output, made.domain, force=force) as writer:
        for start in range(0, len(made), BATCH_ROWS):
            offsets = made.offsets[start : start + BATCH_ROWS + 1]
            part = made.items[offsets[0] : offsets[-1]]
            writer.write((Bits.from_csr(offsets - offsets[0], part, made.universe_size),))


def _report(result: dict[str, Any], json: bool) -> None:

    if json:
        print_json(result)
    elif result["output"] != "-":
        print_facts([(name, _shown(value)) for name, value in result.items()])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
