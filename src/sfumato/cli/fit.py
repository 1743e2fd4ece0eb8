"""`sfumato fit`: one joint law fitted to everything that a release observed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Engine, Force, Json, check_drawing_target
from sfumato.cli.printing import print_facts, print_json, print_notes, telling
from sfumato.cli.sources import read_source
from sfumato.cli.summary import model_facts
from sfumato.errors import FileError
from sfumato.model.fitted import alone, fit_release, fit_rounds
from sfumato.model.model import Model
from sfumato.model.model_file import save_model
from sfumato.progress import Progress
from sfumato.source import Release


def fit(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE…",
            help="A file that Sfumato perturbed, or its table; of ranges, all rounds.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="The model to write.")
    ],
    order: Annotated[
        int, typer.Option(help="The most columns that one interaction may join: 2 or 3.")
    ] = 3,
    engine: Engine = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit one joint law to everything a release observed, and write it as a file that mine, query
    and classify take like any release.

    Example: sfumato fit census.parquet -o census.model.json
    """
    check_drawing_target(output, force)
    sources = [_release(path, engine) for path in releases]
    start = time.process_time()
    with telling() as tell:
        model = _fitted(sources, order, tell)
        described = model.describe()
    save_model(model, output, force=force)
    described |= {"written": str(output), "seconds": round(time.process_time() - start, 2)}
    if json:
        print_json(described)
        return
    print_facts(model_facts(described))
    print_notes([*(alone(sources[0]) if len(sources) == 1 else []), *model_notes(model)])


def _fitted(sources: Sequence[Release], order: int, tell: Progress) -> Model:
    if len(sources) == 1:
        return fit_release(sources[0], order, tell=tell)
    return fit_rounds(sources, tell=tell)


def _release(path: str, engine: str | None) -> Release:
    source = read_source(path, None, None, engine, in_place=True)
    if not isinstance(source, Release):
        raise FileError(
            f"'{path}' carries no mechanism, so there is nothing to fit",
            hint="perturb it first; true records are counted as they are",
        )
    return source


def model_notes(model: Model) -> list[str]:
    """What a reader of the model's answers should know."""
    assumed = (
        f"an answer about more than {model.measured_order} columns may assume that no interaction "
        "joins more; where it does, it says so"
        if model.measured_order > 1
        else "an answer about columns that no question joined takes them to be independent; it "
        "says so"
    )
    notes = [
        assumed,
        "standard errors count the people as a sample",
    ]
    if model.fitted_to["left_out"]:
        left = ", ".join(model.fitted_to["left_out"])
        notes.append(f"left out, {model.why_left_out}: {left}")
    if model.contradicted:
        more = "--order 3, or ask" if model.fitted_order == 2 else "ask"
        notes.append(
            f"the reports contradict a law whose interactions join {model.fitted_order} columns at "
            f"most: all answers may be off by more than their errors; use {more} the release itself"
        )
    if model.dense and not model.law.fit.converged:
        notes.append(f"the fit had not converged after {model.law.fit.steps} steps")
    return notes
