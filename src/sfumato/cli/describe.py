"""`sfumato describe`: what a perturbed file says about itself."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import Json, argument, option
from sfumato.cli.printing import print_facts, print_json, show
from sfumato.errors import FileError, ParameterError
from sfumato.model.format import describe_model, is_model
from sfumato.view import LISTED, View


def describe(
    file: Annotated[str, argument("A file that Sfumato perturbed; - is standard input.", "FILE")],
    rho1: Annotated[float, option("The belief before, for the worst belief after.")] = 0.05,
    json: Json = False,
) -> None:
    """Describe a perturbed file: its mechanism, what it promises in words, its domain and rows.

    Example: sfumato describe census.parquet
    """
    if not 0 < rho1 < 1:
        raise ParameterError(f"rho1={rho1:g} must lie strictly between 0 and 1")
    # Here and not above, so that this command's help is there at once.
    from sfumato.cli.summary import facts, model_facts, summarise
    from sfumato.table import reader_of

    if is_model(file):
        described = describe_model(file)
        print_json(described) if json else print_facts(model_facts(described))
        return
    if "://" in file:
        # Only a database needs an engine: a file describes itself, and quickly.
        from sfumato.engines import open_source
        from sfumato.release import Release

        found = open_source(file)
        assert isinstance(found, Release)
        provenance, rows = found.provenance, found.counter.rows
    else:
        reader = reader_of(file)
        if reader.provenance is None:
            raise FileError(
                f"{reader.where} carries no mechanism: it is not a file that Sfumato perturbed"
            )
        provenance, rows = reader.provenance, reader.described_rows
    summary = summarise(provenance, rows, rho1)
    if json:
        print_json(summary)
        return
    domain = provenance.mechanism.domain.view()
    show(View(facts=facts(summary), sections=(View(tables=domain.tables),)), most=LISTED)
