"""Fitted: the model of a release, whatever mechanism made it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.channels.questionnaire_channel import Questions
from sfumato.domain import Cells, Domain, Items
from sfumato.engines.several import RoundSeries
from sfumato.errors import ParameterError, Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.model.full_table import FullTable, counts_itself, full_tally
from sfumato.model.model import Model, is_dense, is_ordered
from sfumato.model.number_model import NumberModel, NumberReports
from sfumato.model.observed import Answers, Tallies
from sfumato.observation import CellTally, Tally
from sfumato.one_thread import one_thread
from sfumato.progress import Progress, silent
from sfumato.release import Release
from sfumato.source import default_cells

MOST_ITEMS = 20  # items of baskets that a model holds
MOST_CELLS = 1024  # of one column
MOST_COLUMNS = 64  # columns whose pairs are all learned
PUBLIC_CELLS = 4096  # cells of all public columns together
FEWEST = 20  # people for each coefficient of single columns, or none of several is fitted
MOST_ORDER = 3


@checked
@one_thread()
def fit_release(release: Release, order: int = 3, *, tell: Progress = silent) -> Model:
    """The law that a release makes most probable; `order` is that of the interactions it may hold.
    Of few people, the law holds single columns alone and takes them to be independent.

    Reports are counted once; what the model is asked later costs no scan, except where the columns
    are so many that laws are fitted set by set and the reports are no questionnaire's.
    """
    if not isinstance(order, int) or order not in (2, 3):
        raise ParameterError(f"order={shown(order)} is not fitted; use 2 or 3")
    if release.mechanism.joins_by_model:
        return fit_rounds([release], tell=tell)
    _check_whole(release)
    _check_copies(release)
    columns, public = model_columns(release.mechanism)
    order = order if len(columns) > 2 else 2
    tell("counting reports", None)
    shape = tuple(part.size for part in columns)
    order = min(order, order_for(shape[public:], release.rows))
    whole = is_dense(shape, max(order, 2)) and counts_itself(release.mechanism)
    reports = observed(
        *(release.mechanism, columns, public, release.rows),
        lambda tally: release.tallied([tally])[0],
        whole=whole,
    )
    fitted_to = _described(release.mechanism, release.rows, columns)
    return Model(release.mechanism, columns, reports, order, fitted_to, tell=tell)


def fit_rounds(releases: Sequence[Release], *, tell: Progress = silent) -> Model:
    """The law of numbers that groups of people were asked about one after the other, or all at
    once; of anything else there is one release.
    """
    if len(releases) == 1 and not releases[0].mechanism.joins_by_model:
        return fit_release(releases[0], tell=tell)
    for release in releases:
        _check_copies(release)
    if len(releases) > 1:
        RoundSeries.of(releases)  # refused where some people may be in both
    reports = reports_of(releases)
    needed = FEWEST * sum(size - 1 for size in reports.shape[reports.public :])
    if reports.people < needed:
        raise _too_small(round(reports.people), needed)
    people = sum(release.rows for release in releases)
    fitted_to = _described(reports.mechanism, people, reports.columns)
    return replace(NumberModel.of(reports, fitted_to), tell=tell)


def reports_of(releases: Sequence[Release]) -> NumberReports:
    """What groups of people who were asked one after the other reported, as if dealt at once."""
    if any(release.domain.baskets for release in releases):
        raise ParameterError(
            "these are rounds of baskets, to which no model is fitted",
            hint="mine them together: sfumato mine ROUND1 ROUND2 ROUND3, in Python "
            "sf.mine([round1, round2, round3])",
        )
    last = [each.mechanism for each in releases if each.mechanism.joins_by_model]
    if len(last) != 1:
        raise ParameterError(
            f"{len(last)} of these {len(releases)} releases ask about two numbers at once; one "
            "must",
            hint="give the rounds of ranges: the first, and the one --after it",
        )
    questions, answers = last[0].private_reports
    counts = np.zeros((questions.size, answers.size))
    for release in releases:
        cells = tuple(each.cells() for each in release.mechanism.private_reports)
        table = np.asarray(release.counter.count(cells), np.float64)
        counts[: table.shape[0], : table.shape[1]] += table
    return NumberReports(last[0], counts)


def _check_whole(release: Release) -> None:
    design = release.mechanism.rounds
    if release.provenance.turn is not None and design is not None and design.joins_by_model:
        raise Unanswerable(
            "this is round 1 of ranges, which asked nobody about two columns at once: round 2 is "
            "missing",
            hint="fit both: sfumato fit ROUND1 ROUND2 -o MODEL; what is about one column, ask the "
            "release itself",
        )


def alone(release: Release) -> list[str]:
    """What should be known of the fit of a round without the one before it."""
    turn = release.provenance.turn
    if turn is None or turn.round == 1:
        return []
    return [
        f"this is round {turn.round} alone, of a part of the people: fit all rounds together, "
        "sfumato fit ROUND1 ROUND2 -o MODEL"
    ]


def _check_copies(release: Release) -> None:
    if release.copies > 1:
        raise Unanswerable(
            f"a model counts each person once, and this release holds {release.copies} reports of "
            "each",
            hint="query the release itself",
        )


def _described(mechanism: Mechanism, rows: int, columns: tuple[Cells, ...]) -> dict[str, Any]:
    """What a model was fitted to."""
    gamma = mechanism.guarantee.gamma
    return {
        "mechanism": mechanism.name,
        "rows": rows,
        "gamma": float(gamma) if math.isfinite(gamma) else None,
        "left_out": [a.name for a in mechanism.domain if a.name not in _named(columns)],
    }


def _named(columns: tuple[Cells, ...]) -> set[str]:
    return {part.attribute.name for part in columns}


def model_columns(mechanism: Mechanism) -> tuple[tuple[Cells, ...], int]:
    """The columns that a model holds, public ones first as long as their cells are few; and how
    many of them are public.
    """
    shown: list[Cells] = []
    for attribute in mechanism.domain:
        if attribute.public and not isinstance(attribute, Items):
            cells = default_cells(mechanism.domain, attribute.name)
            if math.prod(part.size for part in (*shown, cells)) <= PUBLIC_CELLS:
                shown.append(cells)
    domain = mechanism.domain
    private = [default_cells(domain, axis.name) for axis in domain.private.axes]
    _check_number(mechanism.domain.private, private)
    return (*shown, *private), len(shown)


def _check_number(private: Domain, columns: list[Cells]) -> None:
    items = sum(part.item is not None for part in columns)
    if items > MOST_ITEMS:
        raise Unanswerable(
            f"a model holds baskets of at most {MOST_ITEMS} items, and these have {items:,}",
            hint="mine the release itself",
            items=items,
        )
    for part in columns:
        if part.size > MOST_CELLS:
            raise Unanswerable(
                f"'{part.name}' has {part.size:,} cells, and a model holds {MOST_CELLS:,} of a "
                "column at most",
                hint="give it cuts = […] in the schema, or fewer values",
                cells=part.size,
            )
    if len(columns) > MOST_COLUMNS:
        raise Unanswerable(
            f"a model holds at most {MOST_COLUMNS} columns, and this release has {len(columns)}",
            hint="keep the columns that matter",
            columns=len(columns),
        )


def order_for(sizes: Sequence[int], people: float) -> int:
    """The most columns whose interactions are fitted to so many reports of columns with so many
    values: of few people, single columns alone, as if independent; refused where these are fewer
    than the coefficients of single columns, which then have no answer of their own.
    """
    least = sum(size - 1 for size in sizes)
    if people < least:
        raise _too_small(round(people), least)
    return MOST_ORDER if people >= FEWEST * least else 1


def _too_small(rows: int, needed: int) -> Unanswerable:
    return Unanswerable(
        f"a release of {rows:,} report{'' if rows == 1 else 's'} is too small to fit: its single "
        f"columns alone take {needed:,}",
        hint="its unbiased answers stand: query the release itself",
        rows=rows,
        needed=needed,
    )


def observed(
    mechanism: Mechanism,
    columns: tuple[Cells, ...],
    public: int,
    people: float,
    count: Callable[[Tally], NDArray[Any]],
    *,
    whole: bool,
) -> Answers | Tallies:
    """What so many people's reports say of these columns, `public` ones first, by the counts of
    tallies; where they are counted `whole`, any tally is a part of that of all columns.
    """
    ordered = tuple(map(is_ordered, columns))
    seen = mechanism.observe(columns[public : public + 1])
    if isinstance(seen.channel, Questions) and isinstance(seen.tally, CellTally):
        counts = count(CellTally((*columns[:public], *seen.tally.cells)))
        system, shape = seen.channel.system, tuple(part.size for part in columns)
        answers = np.asarray(counts, dtype=np.float64)
        return Answers(shape, ordered, public, system.gamma, system.questions, answers)
    if not whole:
        return Tallies(mechanism, columns, public, float(people), ordered, count)
    tally = full_tally(mechanism, columns)
    full = FullTable(tally, count(tally))
    return Tallies(mechanism, columns, public, full.people, ordered, full.part)
