"""`sfumato perturb`: randomise every record of a file, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.address import redacted
from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.options import Force, Json, Options, argument, check_output, option
from sfumato.cli.printing import (
    print_facts,
    print_json,
    print_notes,
    progress_bar,
    reading,
    row_bar,
)
from sfumato.cli.sources import READ_OFF, Described
from sfumato.cli.summary import facts, summarise
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.parameters import remarks
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import PRIOR
from sfumato.randomness import secure, seeded
from sfumato.table import Reader, Written, perturb_file, read_items, reader_of
from sfumato.table.formats import check_there
from sfumato.table.readers import people_in
from sfumato.table.round import Round

if TYPE_CHECKING:
    from sfumato.rounds import RoundWanted

USUAL_ROWS = 10_000  # where nothing tells how many there are
ONE_SHOT = (
    "item-set was chosen, the plan's best for baskets: one report of everyone tells of single "
    "items; for itemsets of two and more, ask in rounds instead (--round 1)"
)
ORDER_KEPT = (
    "--keep-order: a report's place tells whatever the order of the true records tells (sorted by "
    "a private column it gives that column away), outside the guarantee"
)
UNMARKED = (
    "nothing can be written beside these data, so nothing remembers that their people were asked: "
    "a second round 1 would ask them again"
)
in_rounds = partial(option, panel="Baskets in rounds")


@dataclass(frozen=True)
class ReportOptions(Options):
    """How often each record reports, and in which order the reports are written."""

    copies: Annotated[int, option("Reports of each record; their guarantees compose.")] = 1
    keep_order: Annotated[
        bool,
        option(
            "Leave the reports in the order of the records, which may give the truth away; else "
            "they are shuffled."
        ),
    ] = False
    order: Annotated[
        Path | None,
        option(
            "Write the secret order (.npy), which only the owner may read, for audit --order.",
            metavar="FILE",
        ),
    ] = None


@dataclass(frozen=True)
class RoundOptions(Options):
    """Which round is asked, after which, and how much the rounds look for."""

    turn: Annotated[
        int | None,
        in_rounds(
            "Ask baskets in rounds: 40 % of the people for any item, then 30 % and 30 % for what "
            "those before them made probable.",
            "--round",
            metavar="K",
        ),
    ] = None
    after: Annotated[
        list[str] | None, in_rounds("A round before this one; once for each.", metavar="RELEASE")
    ] = None
    find: Annotated[
        int | None,
        in_rounds(
            "How many itemsets of largest support the rounds look for; 64 unless stated.",
            min=1,
            max=4096,
        ),
    ] = None

    def wanted(
        self, chosen: MechanismOptions, engine: str | None, output: str, **said: Any
    ) -> RoundWanted | None:
        """The round, if one is wanted; what cannot be one is refused before anything is read."""
        if self.turn is None and not self.after and self.find is None:
            return None
        from sfumato.rounds import RoundWanted, Spelling

        found = RoundWanted.of(
            self.turn,
            after=tuple(self.after or ()),
            find=self.find,
            mechanism=chosen.mechanism,
            guarantee=chosen.guarantee(),
            given=chosen.given,
            spell=Spelling(shell=True),
            output=Path(output),
            **said,
        )
        if engine is not None or "://" in output:
            raise ParameterError("a round is written to a file", hint="give a .parquet or .csv")
        return found


def perturb(
    data: Annotated[
        str, argument("A .csv, .parquet or .dat file (.gz too); - is standard input.", "DATA")
    ],
    output: Annotated[
        str,
        option(
            "The file to write; - is standard output. A folder with Spark. Or a table: "
            "duckdb://FILE#TABLE, sqlite://FILE#TABLE, postgresql://user@host/database#TABLE (the "
            "password in PGPASSWORD or the password file ~/.pgpass: an address is seen by whoever "
            "lists processes).",
            "--output",
            "-o",
            metavar="OUT",
        ),
    ],
    described: Described = Described(),
    chosen: MechanismOptions = MechanismOptions(),
    seed: Annotated[
        int | None, option("Draw from this seed: an experiment, and the file says so.")
    ] = None,
    reports: ReportOptions = ReportOptions(),
    engine: Annotated[
        str | None,
        option("Let Spark do it, by its master: local[2], spark://host:7077.", metavar="URL"),
    ] = None,
    rounds: RoundOptions = RoundOptions(),
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
    said = {"copies": reports.copies, "data": data, "force": force}
    wanted = rounds.wanted(chosen, engine, output, **said)
    make = partial(chosen_mechanism, chosen, output=output)
    how = {"rng": rng, "force": force, **vars(reports)}
    if engine is None:
        written = _in_batches(reader_of(data, described.form), output, described, make, wanted, how)
    else:
        written = _with_spark(engine, data, output, described, make, how)
    prior = PRIOR if chosen.rho1 is None else chosen.rho1
    summary = summarise(written.provenance, written.rows, prior)
    notes = [*written.notes]
    notes += [] if described.schema or described.items else [READ_OFF]
    notes += [ORDER_KEPT] if reports.keep_order else []
    if json:
        print_json({**summary, "output": redacted(output), "notes": notes})
        return
    print_notes(notes)
    if output != "-":
        print_facts([("written", redacted(output)), *facts(summary)])


def _in_batches(
    reader: Reader,
    output: str,
    described: Described,
    make: Callable[[Domain, Reader], Mechanism],
    wanted: RoundWanted | None,
    how: dict[str, Any],
) -> Written:
    """Read here, written to a file or a table."""
    with reading(reader):
        domain = described.domain(reader)
    how = {**how, "schema": domain}
    if wanted is not None:
        return _round(reader, output, domain, wanted, how)
    mechanism = make(domain, reader)
    if "://" in output:
        from sfumato.engines import perturb_into

        with reading(reader):
            return perturb_into(reader, output, mechanism, **how)
    with row_bar("perturbing") as progress:
        return perturb_file(reader, output, mechanism, progress=progress, **how)


def _round(
    reader: Reader, output: str, domain: Domain, wanted: RoundWanted, how: dict[str, Any]
) -> Written:
    """One round: what its people are asked follows from those before it."""
    count = partial(people_in, reader, domain)
    mechanism, turn = wanted.asked(domain, count, reader.where, how["rng"])
    if turn.round == 1:
        print_notes(remarks(mechanism, wanted.given))
        if mechanism.rounds is not None and mechanism.symbol_law is not None:
            all_rounds = mechanism.rounds.predicted(mechanism.guarantee, mechanism.domain)
            print_notes(_useless(all_rounds, reader))
    with row_bar("perturbing") as progress:
        written = perturb_file(reader, output, mechanism, progress=progress, turn=turn, **how)
    if not wanted.keep(turn, written.provenance.release) and turn.round == 1:
        print_notes([UNMARKED])
    _tell_round(mechanism, turn, output)
    return written


def _with_spark(
    engine: str,
    data: str,
    output: str,
    described: Described,
    make: Callable[[Domain, None], Mechanism],
    how: dict[str, Any],
) -> Written:
    """Read and written by Spark."""
    from sfumato.engines.spark import Form, SparkRecords, perturb_records, spark_session

    if described.form is not None:
        raise ParameterError("Spark reads baskets from .dat and lists", hint="leave --form out")
    records = SparkRecords.at(spark_session(engine), data)
    if described.items is not None:
        domain = read_items(described.items)
    elif described.schema is not None:
        domain = Domain.load(described.schema)
    elif records.form is Form.BASKETS:
        domain = records.found_items()
    else:
        raise ParameterError(
            "Spark reads records by a schema", hint="propose one from a sample: sfumato schema"
        )
    return perturb_records(records, output, make(domain, None), schema=domain, **how)


def chosen_mechanism(
    options: MechanismOptions, domain: Domain, reader: Reader | None, output: str
) -> Mechanism:
    """The mechanism that was named, or the plan's best where only a guarantee was given; what
    cannot work is said before any noise is drawn.
    """
    if not options.planned:
        built = options.build(domain, reader)
        useless = [] if reader is None else _useless(built, reader)
        print_notes([*remarks(built, options.given), *useless])
        return built
    guarantee = options.guarantee()
    assert guarantee is not None
    guarantee.check_finite()
    from sfumato.plan import plan_release

    with progress_bar() as progress:
        progress("comparing mechanisms", None)
        rows = USUAL_ROWS if reader is None else people_in(reader, domain)
        plan = plan_release(domain, max(rows, 1), guarantee=guarantee)
    best = next((o for o in plan.options if _writable(o.mechanism, output)), plan.best)
    if best.mechanism.in_rounds:
        once = mechanism_class(best.mechanism.name).promising(guarantee, domain)
        print_notes([ONE_SHOT, *([] if reader is None else _useless(once, reader))])
        return once
    if rows:  # else there is nothing to perturb
        warning = best.warning()
        chosen = f"{best.name} was chosen, the plan's best for these columns"
        print_notes([chosen, *([warning] if warning else [])])
    return best.mechanism


def _useless(mechanism: Mechanism, reader: Reader) -> list[str]:
    """What is said where reports of so few baskets would tell nothing."""
    from sfumato.plan.candidates import basket_warning

    if mechanism.symbol_law is None:
        return []
    rows = people_in(reader, mechanism.domain)
    warning = basket_warning(mechanism, rows) if rows else None
    return [warning] if warning else []


def _writable(mechanism: Mechanism, output: str) -> bool:
    """Whether the output can hold the reports: a basket file holds baskets and nothing else."""
    return mechanism.reports.baskets or not output.removesuffix(".gz").endswith(".dat")


def _tell_round(mechanism: Mechanism, turn: Round, output: str) -> None:
    """What this round asks and what comes next, for people."""
    design = mechanism.rounds
    assert design is not None
    share = f"round {turn.round} asks {100 * turn.shares[turn.round - 1]:.0f} % of the people"
    before = " and those before" if turn.round > 1 else ""
    after = f"next: --round {turn.round + 1} --after {Path(output)}{before}{design.after_next}"
    last = turn.round == len(design.shares)
    print_notes([f"{share}{design.asks(mechanism, turn.round)}", design.at_last if last else after])
