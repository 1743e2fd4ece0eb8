"""`sfumato perturb`: randomise every record of a file, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.options import Epsilon, Force, Gamma, Items, Json, Rho1, Rho2, Schema, check_output

if TYPE_CHECKING:
    from sfumato.domain import Domain
    from sfumato.randomness import Keystream
    from sfumato.table import Reader, Written

READ_OFF = (
    "the values, ranges and cuts were read off the true data and are told with the file, outside "
    "the guarantee; "
    "state them yourself with --schema (baskets: --items) to tell nothing"
)
ORDER_KEPT = (
    "--keep-order: a report's place tells whatever the order of the true records tells (sorted by a "
    "private column it gives that column away), outside the guarantee"
)
PARAMETERS = "Parameters of the mechanism (instead of a guarantee)"


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
            help="The file to write; - is standard output. A folder with Spark.",
        ),
    ],
    schema: Schema = None,
    items: Items = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="gamma-diagonal for records and mask for baskets, unless said otherwise.",
        ),
    ] = None,
    gamma: Gamma = None,
    epsilon: Epsilon = None,
    rho1: Rho1 = None,
    rho2: Rho2 = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="retention, swapping, mask: how often a value is kept; 0.4, or age=0.2,sex=0.6.",
            rich_help_panel=PARAMETERS,
        ),
    ] = None,
    replace: Annotated[
        str | None, typer.Option(help="retention: uniform or identity.", rich_help_panel=PARAMETERS)
    ] = None,
    keep_ones: Annotated[
        float | None, typer.Option(help="mask: how often a one stays.", rich_help_panel=PARAMETERS)
    ] = None,
    keep_zeros: Annotated[
        float | None, typer.Option(help="mask: how often a zero stays.", rich_help_panel=PARAMETERS)
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="randomized-gamma: how far the diagonal is spread, beside a guarantee.",
            rich_help_panel=PARAMETERS,
        ),
    ] = None,
    fp: Annotated[
        float | None,
        typer.Option(help="fp-nfp: how often a one stays.", rich_help_panel=PARAMETERS),
    ] = None,
    nfp: Annotated[
        float | None,
        typer.Option(
            help="fp-nfp: how often a zero of an item that is not frequent stays.",
            rich_help_panel=PARAMETERS,
        ),
    ] = None,
    min_support: Annotated[
        float | None,
        typer.Option(
            help="fp-nfp: from which support on an item is frequent.", rich_help_panel=PARAMETERS
        ),
    ] = None,
    cutoff: Annotated[
        int | None,
        typer.Option(
            help="cut-and-paste: how many items are kept at most.", rich_help_panel=PARAMETERS
        ),
    ] = None,
    insert: Annotated[
        float | None,
        typer.Option(
            help="cut-and-paste: how often any other item is put in.", rich_help_panel=PARAMETERS
        ),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(
            help="matrix: a file with the probabilities, one column a true record.",
            rich_help_panel=PARAMETERS,
        ),
    ] = None,
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
    force: Force = False,
    json: Json = False,
) -> None:
    """Perturb the records of a file and write them with their mechanism. The noise is drawn once,
    from secure randomness.

    Example: sfumato perturb census.csv -o census.parquet --schema census.toml --rho1 0.05 --rho2
    0.50
    """
    from sfumato.cli.printing import print_facts, print_json, print_notes
    from sfumato.cli.summary import PRIOR, facts, summarise
    from sfumato.randomness import secure, seeded

    if engine is None and "://" not in output:
        check_output(Path(output), force, json)
    options = MechanismOptions(
        mechanism,
        gamma,
        epsilon,
        rho1,
        rho2,
        keep,
        replace,
        keep_ones,
        keep_zeros,
        spread,
        fp,
        nfp,
        min_support,
        cutoff,
        insert,
        matrix,
    )
    options.guarantee()
    rng = secure() if seed is None else seeded(seed)
    how = {"copies": copies, "keep_order": keep_order, "order": order, "force": force}
    if engine is None:
        written = _in_batches(data, output, options, schema, items, rng, **how)
    else:
        written = _with_spark(engine, data, output, options, schema, items, rng, **how)
    summary = summarise(written.provenance, written.rows, PRIOR if rho1 is None else rho1)
    notes = written.notes if schema or items else (*written.notes, READ_OFF)
    notes = (*notes, ORDER_KEPT) if keep_order else notes
    if json:
        print_json({**summary, "output": _shown(output), "notes": list(notes)})
        return
    print_notes(notes)
    if output != "-":
        print_facts([("written", _shown(output)), *facts(summary)])


def _shown(output: str) -> str:
    """The output as it may be printed: an address without its user and password.

    >>> _shown("postgresql://ann:secret@host/db#t")
    'postgresql://host/db#t'
    """
    scheme, mark, rest = output.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else output


def _in_batches(
    data: str,
    output: str,
    options: MechanismOptions,
    schema: Path | None,
    items: Path | None,
    rng: Keystream,
    **how: Any,
) -> Written:
    from sfumato.cli.printing import progress_bar
    from sfumato.table import perturb_file, reader_of

    reader = reader_of(data)
    domain = read_domain(reader, schema, items)
    mechanism = options.build(domain, reader)
    if "://" in output:
        from sfumato.engines import perturb_into

        return perturb_into(reader, output, mechanism, rng, schema=domain, **how)
    with progress_bar("perturbing") as progress:
        return perturb_file(reader, output, mechanism, rng, schema=domain, progress=progress, **how)


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
    from sfumato.domain import Domain
    from sfumato.engines.spark import Form, Records, perturb_records, spark_session
    from sfumato.errors import ParameterError
    from sfumato.table import read_items

    records = Records.at(spark_session(engine), data)
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
    return perturb_records(records, output, options.build(domain, None), rng, schema=domain, **how)


def read_domain(reader: Reader, schema: Path | None, items: Path | None) -> Domain:
    """The domain to read true data by: the schema's, the items', or a proposed one."""
    from sfumato.cli.printing import print_notes
    from sfumato.domain import Domain
    from sfumato.errors import ParameterError
    from sfumato.table import propose, read_items
    from sfumato.table.readers import BasketReader

    if items is not None and not isinstance(reader, BasketReader):
        raise ParameterError("--items is for basket files (.dat)", hint="use --schema for records")
    if items is not None and schema is not None:
        raise ParameterError(
            "--items and --schema both say what baskets may hold", hint="give one of them"
        )
    if items is not None:
        return read_items(items)
    if schema is not None:
        return Domain.load(schema)
    proposal = propose(reader)
    print_notes(proposal.notes)
    return proposal.domain
