"""`sfumato perturb`: randomise every record of a file, once."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.address import redacted
from sfumato.cli.domains import READ_OFF, read_domain
from sfumato.cli.mechanism import MechanismOptions, takes_mechanism
from sfumato.cli.options import Force, Form, Items, Json, Schema, check_output
from sfumato.cli.printing import (
    print_facts,
    print_json,
    print_notes,
    progress_bar,
    reading,
    telling,
)
from sfumato.cli.round_options import UNMARKED, tell, wanted_round
from sfumato.cli.summary import facts, summarise
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, rows_of
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import PRIOR
from sfumato.randomness import Keystream, secure, seeded
from sfumato.table import Reader, Written, perturb_file, read_items, reader_of
from sfumato.table.formats import check_there
from sfumato.table.readers import people_in

if TYPE_CHECKING:
    from sfumato.rounds import RoundWanted

USUAL_ROWS = 10_000  # where nothing tells how many there are
COUNTED_BATCHES = 16  # read to count the people of a file; what is longer is told by its size
BYTES_A_ROW = 40  # of a long file, about
ROUNDS = "Baskets in rounds"
ONE_SHOT = (
    "item-set was chosen, the plan's best for baskets: one report of everyone tells of single "
    "items; for itemsets of two and more, ask in rounds instead (--round 1)"
)
ORDER_KEPT = (
    "--keep-order: a report's place tells whatever the order of the true records tells (sorted by "
    "a "
    "private column it gives that column away), outside the guarantee"
)


@takes_mechanism
def perturb(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A .csv, .parquet or .dat file (.gz too); - is standard input."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="The file to write; - is standard output. A folder with Spark. Or a table: "
            "duckdb://FILE#TABLE, sqlite://FILE#TABLE, postgresql://user@host/database#TABLE (the "
            "password in PGPASSWORD or the password file ~/.pgpass: an address is seen by whoever "
            "lists processes).",
        ),
    ],
    schema: Schema = None,
    items: Items = None,
    form: Form = None,
    chosen: MechanismOptions = MechanismOptions(),
    seed: Annotated[
        int | None, typer.Option(help="Draw from this seed: an experiment, and the file says so.")
    ] = None,
    copies: Annotated[
        int, typer.Option(help="Reports of each record; their guarantees compose.")
    ] = 1,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order",
            help="Leave the reports in the order of the records, which may give the truth away; "
            "else they are shuffled.",
        ),
    ] = False,
    order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the secret order (.npy), which only the owner may read, for audit --order.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Let Spark do it, by its master: local[2], spark://host:7077."
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(
            "--round",
            metavar="K",
            help="Ask baskets in rounds: 40 % of the people for any item, then 30 % and 30 % for "
            "what those before them made probable.",
            rich_help_panel=ROUNDS,
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RELEASE",
            help="A round before this one; once for each.",
            rich_help_panel=ROUNDS,
        ),
    ] = None,
    find: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            help="How many itemsets of largest support the rounds look for; 64 unless stated.",
            rich_help_panel=ROUNDS,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Perturb the records of a file and write them with their mechanism. The noise is drawn once,
    from secure randomness.

    Example: sfumato perturb census.csv -o census.parquet --schema census.toml
    --rho1 0.05 --rho2 0.50
    """
    if engine is None:
        check_there(data)
    if engine is None and "://" not in output:
        check_output(Path(output), force, json)
    chosen.guarantee()
    rng = secure() if seed is None else seeded(seed)
    how: dict[str, Any] = {
        "copies": copies,
        "keep_order": keep_order,
        "order": order,
        "force": force,
    }
    said = {"after": tuple(after or ()), "find": find, "copies": copies, "data": data}
    wanted = wanted_round(turn, chosen, engine, output, force=force, **said)
    if engine is not None and form is not None:
        raise ParameterError("Spark reads baskets from .dat and lists", hint="leave --form out")
    if engine is None:
        reader = reader_of(data, form)
        written = _in_batches(reader, output, chosen, schema, items, rng, wanted, **how)
    else:
        written = _with_spark(engine, data, output, chosen, schema, items, rng, **how)
    prior = PRIOR if chosen.rho1 is None else chosen.rho1
    summary = summarise(written.provenance, written.rows, prior)
    notes = written.notes if schema or items else (*written.notes, READ_OFF)
    notes = (*notes, ORDER_KEPT) if keep_order else notes
    if json:
        print_json({**summary, "output": redacted(output), "notes": list(notes)})
        return
    print_notes(notes)
    if output != "-":
        print_facts([("written", redacted(output)), *facts(summary)])


def _in_batches(
    reader: Reader,
    output: str,
    options: MechanismOptions,
    schema: Path | None,
    items: Path | None,
    rng: Keystream,
    wanted: RoundWanted | None,
    **how: Any,
) -> Written:
    with reading(reader):
        domain = read_domain(reader, schema, items)
    if wanted is not None:
        return _round(reader, output, domain, rng, wanted, **how)
    mechanism = chosen_mechanism(options, domain, reader, output)
    if "://" in output:
        from sfumato.engines import perturb_into

        with reading(reader):
            return perturb_into(reader, output, mechanism, rng, schema=domain, **how)
    with progress_bar("perturbing") as progress:
        return perturb_file(reader, output, mechanism, rng, schema=domain, progress=progress, **how)


def _round(
    reader: Reader,
    output: str,
    domain: Domain,
    rng: Keystream,
    wanted: RoundWanted,
    **how: Any,
) -> Written:
    """One round: what its people are asked follows from those before it."""
    count = partial(people_in, reader, domain)
    mechanism, turn = wanted.asked(domain, count, reader.where, rng)
    if turn.round == 1:
        print_notes(mechanism.remarks(wanted.given))
        _note_useless_rounds(mechanism, reader)
    with progress_bar("perturbing") as progress:
        written = perturb_file(
            reader, output, mechanism, rng, schema=domain, progress=progress, turn=turn, **how
        )
    if not wanted.keep(turn, written.provenance.release) and turn.round == 1:
        print_notes([UNMARKED])
    tell(mechanism, turn, output)
    return written


def _note_useless_rounds(first: Mechanism, reader: Reader) -> None:
    """Says what all rounds together would not tell of baskets, before the first is asked."""
    if first.rounds is not None and first.symbol_law is not None:
        print_notes(_useless(first.rounds.predicted(first.guarantee, first.domain), reader))


def _with_spark(
    engine: str,
    data: str,
    output: str,
    options: MechanismOptions,
    schema: Path | None,
    items: Path | None,
    rng: Keystream,
    **how: Any,
) -> Written:
    from sfumato.engines.spark import Form, SparkRecords, perturb_records, spark_session

    records = SparkRecords.at(spark_session(engine), data)
    if items is not None:
        domain = read_items(items)
    elif schema is not None:
        domain = Domain.load(schema)
    elif records.form is Form.BASKETS:
        domain = records.found_items()
    else:
        raise ParameterError(
            "Spark reads records by a schema", hint="propose one from a sample: sfumato schema"
        )
    mechanism = chosen_mechanism(options, domain, None, output)
    return perturb_records(records, output, mechanism, rng, schema=domain, **how)


def chosen_mechanism(
    options: MechanismOptions, domain: Domain, reader: Reader | None, output: str
) -> Mechanism:
    """The mechanism that was named, or the plan's best where only a guarantee was given; what
    cannot work is said before any noise is drawn.
    """
    if not options.planned:
        built = options.build(domain, reader)
        useless = [] if reader is None else _useless(built, reader)
        print_notes([*built.remarks(options.given), *useless])
        return built
    guarantee = options.guarantee()
    assert guarantee is not None
    guarantee.check_finite()
    from sfumato.plan import plan_release

    with telling() as progress:
        progress("comparing mechanisms", None)
        rows = USUAL_ROWS if reader is None else rows_about(reader, domain)
        plan = plan_release(domain, max(rows, 1), guarantee=guarantee)
    best = next((o for o in plan.options if _writable(o.mechanism, output)), plan.best)
    if best.mechanism.in_rounds:
        once = mechanism_class(best.mechanism.name).promising(guarantee, domain)
        print_notes([ONE_SHOT, *([] if reader is None else _useless(once, reader))])
        return once
    if rows:  # else there is nothing to perturb
        warning = best.warning()
        chosen = f"{best.name} was chosen, the plan's best for these columns"
        print_notes([chosen, *([warning] if warning else []), *plan.in_the_way])
    return best.mechanism


def _useless(mechanism: Mechanism, reader: Reader) -> list[str]:
    """What is said where reports of so few baskets would tell nothing."""
    from sfumato.plan.options import basket_warning

    if mechanism.symbol_law is None:
        return []
    rows = rows_about(reader, mechanism.domain)
    warning = basket_warning(mechanism, rows) if rows else None
    return [warning] if warning else []


def _writable(mechanism: Mechanism, output: str) -> bool:
    """Whether the output can hold the reports: a basket file holds baskets and nothing else."""
    return mechanism.reports.baskets or not output.removesuffix(".gz").endswith(".dat")


def rows_about(reader: Reader, domain: Domain) -> int:
    """How many records a file holds, for the plan: counted, or of a long file the order of
    magnitude.
    """
    batches = reader.batches(domain)
    seen = sum(rows_of(columns) for columns in islice(batches, COUNTED_BATCHES))
    if next(batches, None) is None:
        return seen
    return max(seen, (reader.size or 0) // BYTES_A_ROW)
