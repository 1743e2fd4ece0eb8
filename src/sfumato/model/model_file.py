"""Model files: what a model was fitted to, everything that was counted, and the law that was found,
as one JSON text.

The counts are all that the reports said, so nothing is lost; the law is there so that opening a
model costs no fit. Nothing in the file is about a single person that the release did not hold.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.channels.contrasts import Axes
from sfumato.errors import FileError, Unanswerable
from sfumato.files import OVERWRITE, write_whole, written
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.registry import from_spec
from sfumato.model.fitted import model_columns, observed
from sfumato.model.fitting import ROUGH, SMOOTH, Fit, refitted
from sfumato.model.format import FORMAT, VERSION, read_model
from sfumato.model.full_table import full_tally
from sfumato.model.local import Joined, interactions_over, likelihood_over, pairs_of
from sfumato.model.model import Model
from sfumato.model.number_model import NumberModel, NumberReports
from sfumato.model.observed import Answers, Reports, Tallies
from sfumato.observation import CellTally, Tally
from sfumato.untrusted import Untrusted, refuse_malformed

MOST_COUNTS = 1 << 20
MOST_COEFFICIENTS = 1 << 18  # of all pairs together that are written down; else they are learned


@checked
def save_model(model: Model, path: str | Path, *, force: bool = False) -> None:
    """Write a model; `open_model` reads it back."""
    text = json.dumps(model_to_dict(model), separators=(",", ":"))
    with written(Path(path)):
        try:
            write_whole(Path(path), text.encode(), force=force)
        except FileExistsError:
            raise FileError(
                f"'{path}' is already there", hint=f"name another file, or {OVERWRITE}"
            ) from None


def model_to_dict(model: Model) -> dict[str, Any]:
    """A model as JSON data."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "described": model.describe(),
        "order": model.order,
        "release": spec_of(model.mechanism),
        "counts": [int(count) for count in np.rint(_counts(model)).ravel().tolist()],
    }
    if model.dense:
        found = model.law.fit
        data["law"] = {
            "coefficients": found.theta.tolist(),
            "variances": found.variances.tolist(),
            "converged": found.converged,
            "steps": found.steps,
            "roughness": found.roughness,
        }
    elif model.order > 1 and _pair_coefficients(model.reports) <= MOST_COEFFICIENTS:
        data["pairs"] = [
            {
                "columns": list(axes),
                "coefficients": [float(f"{value:.6g}") for value in found.theta],
                "variance": found.variance,
                "roughness": found.roughness,
            }
            for axes, found in model.pairs.items()
        ]
    return data


def _pair_coefficients(reports: Reports) -> int:
    return sum(interactions_over(reports, pair, 2).size for pair in pairs_of(reports))


def _counts(model: Model) -> NDArray[Any]:
    """All that was counted, over public cells, questions and answers, or over all columns."""
    reports = model.reports
    if isinstance(reports, Answers | NumberReports):
        return reports.counts
    assert isinstance(reports, Tallies)
    tally = full_tally(reports.mechanism, reports.columns)
    cells = max(math.prod(reports.shape), math.prod(tally.shape))
    if cells > MOST_COUNTS:
        raise Unanswerable(
            f"a model of {cells:,} cells is not written down: it asks the release for what it "
            "needs",
            hint="fit it where it is used (--fit), and keep the release",
            cells=cells,
        )
    return np.asarray(reports.count(tally))


@checked
def open_model(path: str | Path) -> Model:
    """The model that a file holds.

    >>> import sfumato as sf, tempfile
    >>> people = {"smoker": ["yes", "no", "no"] * 200, "sex": ["f", "m"] * 300}
    >>> model = sf.fit(sf.perturb(people, gamma=19, rng=sf.seeded(1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.save_model(model, f"{folder}/crowd.model.json")
    ...     opened = open_model(f"{folder}/crowd.model.json")
    >>> opened.rows, bool((opened.marginal(["sex"]).value == model.marginal(["sex"]).value).all())
    (600, True)
    """
    where = f"'{path}'" if isinstance(path, str | Path) else shown(path)
    with refuse_malformed(where):
        return model_from(read_model(path), where)


def model_from(given: Untrusted, where: str) -> Model:
    """The model of JSON data, every number checked before it is used."""
    mechanism = from_spec(given["release"].value)
    counts = np.array(given["counts"].numbers(MOST_COUNTS, least=0.0), dtype=np.float64)
    fitted_to = given["described"]["fitted_to"].value
    if mechanism.joins_by_model:
        asked = tuple(part.cells() for part in mechanism.private_reports)
        numbers = NumberReports(mechanism, _table(counts, CellTally(asked), where))
        law, joined = _law(given, numbers, 2), _joined(given, numbers)
        return NumberModel.of(numbers, fitted_to, law, joined)
    columns, public = model_columns(mechanism)
    reports = observed(
        *(mechanism, columns, public, counts.sum()),
        lambda tally: _table(counts, tally, where),
        whole=True,
    )
    order = given["order"].whole(1, 3)
    law, joined = _law(given, reports, order), _joined(given, reports)
    return Model(mechanism, columns, reports, order, fitted_to, law, joined)


def _joined(given: Untrusted, reports: Reports) -> dict[Axes, Joined] | None:
    """What was learned of each pair of columns, where it was written down."""
    if "pairs" not in given.fields():
        return None
    every = pairs_of(reports)
    found = dict(_pair(each, reports) for each in given["pairs"].entries(len(every)))
    if set(found) != set(every):
        raise FileError(
            f"{given.name} tells of {len(found)} pairs of columns where its release has "
            f"{len(every)}",
            hint="it was changed or cut short; fit it again",
        )
    return found


def _pair(given: Untrusted, reports: Reports) -> tuple[Axes, Joined]:
    last = len(reports.shape) - 1
    first, second = (part.whole(0, last) for part in given["columns"].entries(2))
    axes = (first, second)
    theta = np.array(given["coefficients"].numbers(MOST_COEFFICIENTS))
    wanted = interactions_over(reports, axes, 2).size if first < second else 0
    if theta.size != wanted:
        raise FileError(f"{given.name} has {theta.size} coefficients where {wanted} are wanted")
    variance, roughness = given["variance"].number(1e-9), given["roughness"].number(ROUGH, SMOOTH)
    return axes, Joined(theta, variance, roughness)


def _law(given: Untrusted, reports: Reports, order: int) -> Fit | None:
    """The law of all columns, where one was found."""
    if "law" not in given.fields():
        return None
    law = given["law"]
    return refitted(
        likelihood_over(reports, tuple(range(len(reports.shape))), order),
        np.array(law["coefficients"].numbers()),
        np.array(law["variances"].numbers(least=1e-9)),
        converged=law["converged"].flag(),
        steps=law["steps"].whole(),
        roughness=law["roughness"].number(ROUGH, SMOOTH) if "roughness" in law.fields() else SMOOTH,
    )


def _table(counts: NDArray[Any], tally: Tally, where: str) -> NDArray[Any]:
    """Counts in the shape of a tally."""
    if counts.size != math.prod(tally.shape):
        raise FileError(
            f"{where} has {counts.size:,} counts where its release has {math.prod(tally.shape):,}",
            hint="it was changed or cut short; fit it again",
        )
    return counts.reshape(tally.shape)
