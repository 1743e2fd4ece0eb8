"""Regression: logistic, linear and Poisson, from reports as from true records, with errors that
know of the blur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit, ndtr

from sfumato.arguments import checked, shown
from sfumato.domain import Cells
from sfumato.errors import EstimationError, ParameterError, listing, near_miss
from sfumato.estimation.answer import Answer
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.mine import limits
from sfumato.mine.crosstab import MODEL, Crosstab, is_number
from sfumato.mine.formula import CONTRASTS, SCORES, Factor, Formula, term_name
from sfumato.one_thread import one_thread
from sfumato.progress import Progress, silent
from sfumato.renderers.frames import arrow, json_value
from sfumato.result import Result
from sfumato.source import Source
from sfumato.view import Chart, ColumnView, Panel, Series, TableView, View, is_exact

Floats = NDArray[Any]
LOGIT, LINEAR, POISSON = "logit", "linear", "poisson"
INTERCEPT = "intercept"
STEPS = 25  # of Newton's method, after which R's glm gives up as well: it doubles the digits
SETTLED = 1e-9  # the change of a linear predictor below which Newton's method is done
SINGULAR = 1e-10  # of the largest eigenvalue: what is smaller is rounding
NORMAL = 1.96  # a 95 % interval that holds no zero


@dataclass(frozen=True)
class Family:
    """A generalised linear model with its canonical link (Nelder and Wedderburn 1972)."""

    mean: Callable[[Floats], Floats]  # of the linear predictor
    slope: Callable[[Floats], Floats]  # of the mean by the predictor, from the mean
    bend: Callable[[Floats], Floats]  # of the slope by the predictor, from the mean
    start: Callable[[float], float]  # the predictor of a mean
    means: tuple[float, float]  # between which means lie
    reach: float  # how far one step may move a predictor: longer ones overshoot
    ratio: str | None  # what exp(coefficient) is called


FAMILIES = {
    LOGIT: Family(
        expit,
        lambda mu: mu * (1 - mu),
        lambda mu: mu * (1 - mu) * (1 - 2 * mu),
        lambda mean: math.log(mean / (1 - mean)),
        (0.0, 1.0),
        4.0,
        "odds ratio",
    ),
    LINEAR: Family(
        lambda eta: eta,
        np.ones_like,
        np.zeros_like,
        lambda mean: mean,
        (-math.inf, math.inf),
        math.inf,
        None,
    ),
    POISSON: Family(
        np.exp, lambda mu: mu, lambda mu: mu, math.log, (0.0, math.inf), 4.0, "rate ratio"
    ),
}


@dataclass(frozen=True, eq=False)
class ModelMatrix:
    """The columns X of a regression over the cells of a crosstab, their names, and the columns of
    each term.
    """

    matrix: Floats  # (cells, coefficients)
    names: tuple[str, ...]
    terms: Mapping[str, tuple[int, ...]]
    references: Mapping[str, str]  # the value that each column of contrasts is compared with
    numbers: tuple[str, ...]  # the columns that are taken as numbers

    @classmethod
    def of(cls, formula: Formula, table: Crosstab, chosen: Mapping[str, str]) -> ModelMatrix:
        """Contrasts of each value with the reference, numbers as they are, products of both."""
        references = _references(formula, table, chosen)
        columns, names = [np.ones(len(table.value))], [INTERCEPT]
        terms: dict[str, tuple[int, ...]] = {}
        for term in formula.terms:
            made = [("", np.ones(len(table.value)))]
            for factor in term:
                coded = [*_coded(factor, table, references.get(factor.name))]
                made = [(f"{a}:{b}".lstrip(":"), x * z) for a, x in made for b, z in coded]
            terms[term_name(term)] = tuple(range(len(names), len(names) + len(made)))
            names += [name for name, _ in made]
            columns += [column for _, column in made]
        if len(names) * len(table.value) > limits.CELLS:
            raise ParameterError(
                f"{len(names):,} coefficients over {len(table.value):,} cells are too many",
                hint="name fewer columns, or leave interactions out",
            )
        numbers = tuple(name for name in formula.names if name not in references)
        return cls(np.stack(columns, axis=1), tuple(names), terms, references, numbers)


def _contrasted(factor: Factor, part: Cells) -> bool:
    return factor.coding == CONTRASTS or (factor.coding != SCORES and not is_number(part))


def _references(formula: Formula, table: Crosstab, chosen: Mapping[str, str]) -> dict[str, str]:
    """The reference of each column of contrasts: the value that was chosen, else the first."""
    found = {}
    for factor in (factor for term in formula.terms for factor in term):
        part = table.columns[table.column(factor.name)]
        if _contrasted(factor, part):
            found[part.name] = part.labels[part.code(str(chosen.get(part.name, part.labels[0])))]
    others = [name for name in chosen if name not in (*found, formula.response)]
    if others:
        raise ParameterError(
            f"a reference is given for '{others[0]}', which has no contrasts here",
            hint=near_miss(others[0], [*found, formula.response]) or f"C({others[0]}) has them",
        )
    return found


def _coded(factor: Factor, table: Crosstab, reference: str | None) -> Iterator[tuple[str, Floats]]:
    """The columns that a factor gives, and their names."""
    place = table.column(factor.name)
    part, codes = table.columns[place], table.codes[:, place]
    contrasted, numbers = _contrasted(factor, part), table.numbers[:, place]
    scores = codes.astype(np.float64) if contrasted or np.isnan(numbers).any() else numbers
    if len(np.unique(scores[table.value != 0])) < 2:
        raise EstimationError(
            f"'{part.name}' has one value only, so nothing is explained by it", hint="leave it out"
        )
    if not contrasted:
        yield str(factor), scores
        return
    for code, label in enumerate(part.labels):
        if label != reference:
            yield f"{part.name}={label}", (codes == code).astype(np.float64)


def _response(
    formula: Formula, table: Crosstab, family: str | None, chosen: Mapping[str, str]
) -> tuple[str, str | None, Floats]:  # the family, the event, (cells,)
    """What is explained: 1 for the cells of the event, or the numbers of the response."""
    place = table.column(formula.response)
    part, codes, numbers = table.columns[place], table.codes[:, place], table.numbers[:, place]
    numeric = not np.isnan(numbers).any()
    if family not in (None, *FAMILIES):
        raise ParameterError(
            f"no family {shown(family)} ({listing(FAMILIES)})", hint=near_miss(family, FAMILIES)
        )
    yes_no = formula.event is not None or (part.size == 2 and not is_number(part))
    family = family or (LOGIT if yes_no else LINEAR)
    if family != LOGIT and formula.event is None and numeric:
        if family == POISSON and numbers.min() < 0:
            raise ParameterError(f"'{part.name}' has values below 0, and Poisson counts from 0")
        return family, None, numbers
    if part.size < 2:
        raise EstimationError(
            f"'{part.name}' has one value only ({part.labels[0]}), so there is nothing to explain",
            hint="explain another column",
        )
    if not yes_no:
        kind = "yes/no" if numeric else "yes/no and no number"
        raise ParameterError(
            f"'{part.name}' is no {kind}: it has {part.size} values ({listing(part.labels)})",
            hint=f'name the value that counts as yes: {part.name}="{part.labels[-1]}" ~ …',
        )
    event = formula.event or event_of(part, chosen.get(part.name))
    return family, event, (codes == part.code(event)).astype(np.float64)


def event_of(part: Cells, reference: str | None) -> str:
    """The value that counts as yes: not the reference, else what means yes, else the second."""
    if reference is not None:
        return part.labels[1 - part.code(str(reference))]
    yes = [each for each in part.labels if each.casefold() in ("yes", "true", "1", "y")]
    return yes[0] if len(yes) == 1 else part.labels[1]


@dataclass(frozen=True, eq=False)
class Solution:
    """The coefficients that solve X′(v∘(y − μ)) = 0, and how they move with the counts v."""

    beta: Floats  # (coefficients,)
    influence: Floats  # (cells, coefficients): H⁻¹(X∘(y − μ))′, transposed
    hessian: Floats  # X′diag(v·μ′)X
    clipped: bool  # whether negative counts had to be set to 0


def solve(
    design: Floats, response: Floats, counts: Floats, rows: float, family: Family
) -> Solution | None:
    """The coefficients by Newton's method (iteratively reweighted least squares), from the signed
    counts while H stays positive definite, else from counts clipped at 0; None where neither
    converges.
    """
    scale = np.sqrt((design**2).mean(axis=0))
    unit = design / scale
    clipped = clip_and_scale(counts, rows)
    mean = float(clipped @ response) / rows
    if not family.means[0] < mean < family.means[1]:
        return None
    start = np.zeros(unit.shape[1])
    start[0] = family.start(mean)
    from_clipped = _newton(unit, response, clipped, family, start)
    begin = start if from_clipped is None else from_clipped
    beta = _newton(unit, response, counts, family, begin)
    used = counts if beta is not None else clipped
    beta = from_clipped if beta is None else beta
    if beta is None:
        return None
    mu = family.mean(unit @ beta)
    hessian = (unit.T * (used * family.slope(mu))) @ unit
    influence = np.linalg.solve(hessian, (unit * (response - mu)[:, None]).T).T
    hessian = hessian * np.outer(scale, scale)
    return Solution(beta / scale, influence / scale, hessian, used is not counts)


def _newton(
    design: Floats, response: Floats, counts: Floats, family: Family, beta: Floats
) -> Floats | None:
    eta = design @ beta
    for _ in range(STEPS):
        mu = family.mean(eta)
        hessian = (design.T * (counts * family.slope(mu))) @ design
        if not _is_definite(hessian):
            return None
        step = np.linalg.solve(hessian, design.T @ (counts * (response - mu)))
        moved = design @ step
        furthest = float(np.abs(moved).max())
        beta = beta + step * min(1.0, family.reach / max(furthest, 1e-300))
        eta = design @ beta
        if furthest <= SETTLED * (1 + float(np.abs(eta).max())):
            return beta
    return None


def _is_definite(hessian: Floats) -> bool:
    """Whether a matrix is positive definite by more than rounding, whatever its columns' units."""
    diagonal = np.diagonal(hessian)
    if not np.isfinite(hessian).all() or (diagonal <= 0).any():
        return False
    unit = np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(hessian / np.outer(unit, unit))[0] > SINGULAR)


def check_told(
    design: ModelMatrix, found: Solution, counts: Floats, table: Crosstab, family: Family
) -> None:
    """Refuse coefficients where some direction of H lies within its noise of 0, as it does near
    separation, for a value that hardly anybody has, and where there are more of them than the
    reports can tell.

    The curvature λ = a′Ha along an eigenvector a moves with the counts by μ′(Xa)² and through the
    coefficients by μ″(Xa)²X; its noise is that of the reports alone.
    """
    x = design.matrix
    unit = 1 / np.sqrt(np.diagonal(found.hessian))
    values, vectors = np.linalg.eigh(found.hessian * np.outer(unit, unit))
    along = (x @ (vectors * unit[:, None])) ** 2  # (cells, coefficients)
    mu = family.mean(x @ found.beta)
    through = x.T @ ((counts * family.bend(mu))[:, None] * along)  # (coefficients, directions)
    moves = family.slope(mu)[:, None] * along + found.influence @ through
    noise = np.sqrt(np.maximum(np.diagonal(table.covariance(moves, fixed=True)), 0.0))
    lost = np.flatnonzero(values <= NORMAL * noise)
    if len(lost):
        worst = int(np.argmax(np.abs(vectors[1:, lost[0]]))) + 1 if len(values) > 1 else 0
        raise EstimationError(
            f"the reports cannot tell these {len(values)} coefficients apart: "
            f"'{design.names[worst]}' cannot be estimated beside the others",
            hint="leave it out, merge rare values, or ask more people",
        )


def check_not_assumed(
    design: ModelMatrix, found: Solution, stated: Floats, table: Crosstab
) -> None:
    """Refuse what a model holds to be 0 rather than estimates, such as the interaction of more
    columns than any question held.
    """
    for name, value, error in zip(design.names, found.beta, stated, strict=True):
        if table.origin == MODEL and is_exact(value, error):
            raise EstimationError(
                f"'{name}' cannot be estimated: the model assumes {table.assumes}",
                hint="leave it out, or perturb fewer columns, so that one question holds these",
            )


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Result):
    """Coefficients of a generalised linear model with their covariance, as a table.

    The errors are those of the estimating equation by its influence function (Huber 1967): the
    blur's, through the covariance of the reconstructed counts, and unless the rows are fixed that
    of sampling. The model need not be right for them to hold.
    """

    formula: str
    family: str
    response: str
    event: str | None
    design: ModelMatrix
    value: Floats  # (coefficients,)
    moves: tuple[Answer, ...]  # each coefficient about its value: its error and interval
    covariance: Floats  # (coefficients, coefficients)
    table: Crosstab
    clipped: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients: the intercept, then those of each term."""
        return self.design.names

    @property
    def rows(self) -> int:
        """How many people there are."""
        return self.table.rows

    @property
    def origin(self) -> str:
        """What it was computed from: true records, reports or a model."""
        return self.table.origin

    @cached_property
    def stderr(self) -> Floats:
        """The standard error of each coefficient."""
        return np.array([each.stderr for each in self.moves])

    @cached_property
    def p(self) -> Floats:
        """How probable a coefficient as far from 0 would be by chance."""
        pairs = zip(self.value, self.stderr, strict=True)
        return np.array([two_sided(value, stderr) for value, stderr in pairs])

    def coefficient(self, name: str) -> Answer:
        """One coefficient with its standard error."""
        if name not in self.names:
            raise ParameterError(
                f"no coefficient {shown(name)} ({listing(self.names)})",
                hint=near_miss(name, self.names),
            )
        place = self.names.index(name)
        return Answer(float(self.value[place]), float(self.stderr[place]), self.table.samples)

    def interval(self, level: float = 0.95) -> Floats:  # (coefficients, 2)
        """The interval of each coefficient."""
        about = [np.array(each.interval(level)) - each.value for each in self.moves]
        return self.value[:, None] + np.array(about)

    def tests(self) -> list[dict[str, Any]]:
        """For each term, whether all of its coefficients are 0: Wald's χ² with its degrees of
        freedom.
        """
        found = []
        for term, places in self.design.terms.items():
            chi2, df = wald(self.value[[*places]], self.covariance[np.ix_(places, places)])
            found.append({"term": term, "chi2": chi2, "df": df, "p": chance(chi2, df)})
        return found

    def notes(self) -> list[str]:
        """What must not be overlooked."""
        used = [name for name in self.design.numbers if self.event is None or name != self.response]
        said = [*self.table.notes, *self.table.binned(used)]
        if self.clipped:
            said.append(
                "negative counts had to be set to 0, so the coefficients are biased towards 0"
            )
        return said

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The JSON shape of `sfumato regress`."""
        return {
            "formula": self.formula,
            "family": self.family,
            "response": self.response,
            "event": self.event,
            "from": self.origin,
            "rows": self.rows,
            "level": level,
            "sampling": self.table.samples,
            "references": dict(self.design.references),
            "coefficients": json_value(arrow(TableView(self._columns(level))).to_pylist()),
            "terms": json_value(self.tests()),
            "assumes": self.table.assumes,
            "notes": self.notes(),
        }

    @checked
    def view(self, level: float = 0.95) -> View:
        """A line for each coefficient, one for each term's test, and a forest plot."""
        response = self.response if self.event is None else f"{self.response}={self.event}"
        facts: list[tuple[str, Any]] = [
            ("family", self.family),
            ("explained", response),
            ("people", self.rows),
            ("computed from", self.origin),
        ]
        if self.design.references:
            compared = (f"{name}={label}" for name, label in self.design.references.items())
            facts.append(("compared with", ", ".join(compared)))
        tests = self.tests()
        heads = ("term", "χ²", "df", "p")
        lines = [
            (each["term"], f"{each['chi2']:.4g}", each["df"], p_words(each["p"])) for each in tests
        ]
        return View(
            self.formula,
            facts=facts,
            charts=() if len(self.names) < 2 else (self._forest(level),),
            tables=(
                TableView(self._columns(level)),
                *([TableView.of(heads, lines, "Tests of terms (Wald)")] if tests else []),
            ),
            notes=self.notes(),
        )

    def _columns(self, level: float) -> list[ColumnView]:
        ends, ratio = self.interval(level), FAMILIES[self.family].ratio
        p = ColumnView("p", self.p.tolist(), words=p_words, field="p")
        columns = [
            ColumnView("column", self.names, field="term", kind="string"),
            ColumnView(
                "coefficient",
                self.value.tolist(),
                self.stderr.tolist(),
                level=level,
                ends=[(low, high) for low, high in ends.tolist()],
                field=("value", "stderr", "low", "high"),
            ),
        ]
        if ratio is None:
            return [*columns, p]
        field, within = ratio.replace(" ", "_"), np.exp(ends)
        columns[1] = replace(columns[1], level=None)  # that of the ratio says the same
        return [
            *columns,
            ColumnView(ratio, np.exp(self.value).tolist(), words=_ratio, field=field),
            ColumnView(
                f"{100 * level:g} % interval",
                [f"[{_ratio(low)}, {_ratio(high)}]" for low, high in within],
            ),
            ColumnView("", within[:, 0].tolist(), field=f"{field}_low"),
            ColumnView("", within[:, 1].tolist(), field=f"{field}_high"),
            p,
        ]

    def _forest(self, level: float) -> Chart:
        ratio, some = FAMILIES[self.family].ratio, slice(1, None)
        value, ends = self.value[some], self.interval(level)[some]
        if ratio is not None:
            value, ends = np.exp(value), np.exp(ends)
        panel = Panel(
            "points",
            self.names[some],
            [Series(f"{100 * level:g} % interval", value, ends=ends)],
            quantity=ratio or "coefficient",
            sideways=True,
            mark=(0.0 if ratio is None else 1.0, "no difference"),
            log="" if ratio is None else "x",
            from_zero=False,
        )
        return Chart(panel, f"{self.formula}: {ratio or 'coefficient'} of each column")


def _ratio(number: float) -> str:
    return f"{number:#.3g}" if 1e-3 <= number < 1e4 else f"{number:.1e}"


def p_words(p: float) -> str:
    """A probability as papers print it.

    >>> p_words(0.0312), p_words(1e-9)
    ('0.031', '< 0.001')
    """
    return (
        "–" if math.isnan(p) else "< 0.001" if p < 1e-3 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"
    )


def wald(value: Floats, covariance: Floats) -> tuple[float, int]:
    """Wald's δ′D⁺δ and its degrees of freedom; what varies by rounding only is left out."""
    unit = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    known = unit > 0
    if not known.any():
        return math.inf if np.any(value) else 0.0, len(value)
    unit, value = unit[known], value[known]
    spread, axes = np.linalg.eigh(covariance[np.ix_(known, known)] / np.outer(unit, unit))
    kept = spread > 1e-8 * spread[-1]
    along = axes.T @ (value / unit)
    return float((along[kept] ** 2 / spread[kept]).sum()), int(kept.sum())


def two_sided(value: float, stderr: float) -> float:
    """How probable an estimate as far from 0 is by chance, if it is normal."""
    return 2 * float(ndtr(-abs(value) / max(stderr, 1e-300)))


def chance(chi2: float, df: int) -> float:
    """How probable a χ² as large is by chance."""
    return float(chdtrc(df, chi2)) if math.isfinite(chi2) else 0.0


@checked
@one_thread()
def regress(
    source: Source,
    formula: str,
    *,
    family: str | None = None,
    reference: Mapping[str, str] | None = None,
    rows_fixed: bool = False,
    tell: Progress = silent,
) -> Regression:
    """The regression that a formula names, from true records, reports or a model: logit for a
    yes/no, linear for a number, or as the family says.
    """
    asked, chosen = Formula.read(formula), dict(reference or {})
    if not all(isinstance(value, str | int | float) for value in chosen.values()):
        raise ParameterError("a reference is one value of its column", hint='as in {"sex": "m"}')
    for name in (*asked.names, *chosen):
        source.domain.axis(name)  # a name that nothing has is refused here
    table = Crosstab.of(source, asked.names, rows_fixed, tell)
    called, event, response = _response(asked, table, family, chosen)
    design, kind = ModelMatrix.of(asked, table, chosen), FAMILIES[called]
    found = solve(design.matrix, response, table.value, table.rows, kind)
    if found is None:
        raise EstimationError(
            f"{formula}: the coefficients cannot be estimated: some columns determine the "
            "response, or repeat what others say",
            hint="leave a column out, merge rare values, or ask more people",
        )
    check_told(design, found, table.value, table, kind)
    covariance = table.covariance(found.influence)
    moves = tuple(table.answers(found.influence))
    stated = np.array([each.stderr for each in moves])
    check_not_assumed(design, found, stated, table)
    plain = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    wider = np.where(plain > 0, stated / np.maximum(plain, 1e-300), 0.0)
    return Regression(
        formula.strip(),
        called,
        asked.response,
        event,
        design,
        found.beta,
        moves,
        covariance * np.outer(wider, wider),
        table,
        found.clipped,
    )
