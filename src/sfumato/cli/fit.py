"""`sfumato fit`: one joint model fitted to all reports of a release."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from sfumato.cli.options import Engine, Force, Json, argument, check_absent, option
from sfumato.cli.printing import print_facts, print_json, print_notes, progress_bar
from sfumato.cli.sources import Reading
from sfumato.cli.summary import model_facts
from sfumato.errors import FileError
from sfumato.model.fitted import alone, fit_release, fit_rounds
from sfumato.model.model import Model
from sfumato.model.model_file import save_model
from sfumato.release import Release


def fit(
    releases: Annotated[
        list[str],
        argument("A file that Sfumato perturbed, or its table; of ranges, all rounds.", "RELEASE…"),
    ],
    output: Annotated[Path, option("The model to write.", "--output", "-o", metavar="MODEL")],
    order: Annotated[int, option("The most columns that one interaction may join: 2 or 3.")] = 3,
    engine: Engine = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit one joint model to all reports of a release, and write it as a file that mine, query and
    classify take like any release.

    Example: sfumato fit census.parquet -o census.model.json
    """
    check_absent(output, force)
    sources = [_release(path, engine) for path in releases]
    alone_asked = len(sources) == 1
    start = time.process_time()
    with progress_bar() as tell:
        model = (
            fit_release(sources[0], order, tell=tell)
            if alone_asked
            else fit_rounds(sources, tell=tell)
        )
        described = model.describe()
    save_model(model, output, force=force)
    described |= {"written": str(output), "seconds": round(time.process_time() - start, 2)}
    if json:
        print_json(described)
        return
    print_facts(model_facts(described))
    print_notes([*(alone(sources[0]) if alone_asked else []), *model_notes(model)])


def _release(path: str, engine: str | None) -> Release:
    source = Reading(engine=engine).source(path, in_place=True)
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
        "where no question asked about all columns at once, errors count the people as a sample",
    ]
    if model.fitted_to["left_out"]:
        left = ", ".join(model.fitted_to["left_out"])
        notes.append(f"left out, {model.why_left_out}: {left}")
    if model.contradicted:
        more = "--order 3, or ask" if model.fitted_order == 2 else "ask"
        notes.append(
            f"the reports contradict a model whose interactions join {model.fitted_order} columns "
            f"at most: all answers may be off by more than their errors; use {more} the release"
        )
    if model.dense and not model.law.fit.converged:
        notes.append(f"the fit had not converged after {model.law.fit.steps} steps")
    return notes
