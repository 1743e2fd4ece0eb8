"""The story that `sfumato demo` tells, as one view: perturb, promise, reconstruct, mine,
ask, classify, publish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.cli.summary import promise
from sfumato.datasets.quest import Quest
from sfumato.datasets.survey import survey
from sfumato.errors import MissingExtraError
from sfumato.estimation.estimate import Answer
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.cube import query
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.quality import roc_area
from sfumato.plots import Marginal
from sfumato.printable import percent
from sfumato.privacy.guarantee import Guarantee
from sfumato.publish.hide import hide
from sfumato.publish.swap import swap
from sfumato.randomness import Keystream
from sfumato.renderers.picture import points
from sfumato.source import Exact, Release, perturb
from sfumato.table import Table as Records
from sfumato.view import Chart, ColumnView, TableView, View

if TYPE_CHECKING:
    from sfumato.collect.simulating import Compared

COLUMNS = ("age", "sex", "smoker", "diabetes")
PROMISE = Guarantee.from_breach(rho1=0.05, rho2=0.50)
KEEP = 0.9  # of every bit of a basket
MIN_SUPPORT, SHOWN = 0.08, 8
COLUMN_KEEP = 0.5
SQL = "SELECT sex, COUNT(*), AVG(age) FROM t WHERE smoker = 'yes' GROUP BY sex"
PUBLISHED = 5_000  # people whose records are swapped
COLLECTED = 3_000  # people who answer a campaign over HTTP
REACH = NormalDist().inv_cdf(0.975)  # standard errors to the end of a 95 % interval
CAMPAIGN = """\
name = "demo"
title = { en = "Synthetic health survey" }
schema = "survey.toml"
[promise]
gamma = 19
[mechanism]
name = "gamma-diagonal"
"""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """A synthetic survey and synthetic baskets, the truth beside what was made of the perturbed
    copies.
    """

    rows: int
    data: Keystream  # which people and baskets there are
    noise: Keystream  # how their records are perturbed

    @cached_property
    def truth(self) -> Exact:
        """The people as they are."""
        people, domain = survey(self.rows, self.data)
        return Exact(Records.from_arrow(people.select(list(COLUMNS)), domain.project(COLUMNS)))

    @cached_property
    def release(self) -> Release:
        """The people as they report themselves."""
        return perturb(
            self.truth.table, GammaDiagonal.promising(PROMISE, self.truth.domain), self.noise
        )

    @cached_property
    def baskets(self) -> Exact:
        """Baskets with patterns in them."""
        made = Quest.from_name("T5.I2.D1K.N50.L20", baskets=self.rows).generate(self.data.derive(1))
        return Exact(Records(made.domain, (made.bits(),)))

    @cached_property
    def masked(self) -> Release:
        """The baskets with every bit kept or flipped."""
        return perturb(
            self.baskets.table, BitFlip(self.baskets.domain, KEEP, KEEP), self.noise.derive(1)
        )

    def view(self) -> View:
        """The whole story."""
        sections = (
            self._promised(),
            self._marginals(),
            self._question(),
            self._mined("What goes together in the survey", self.truth, self.release),
            self._masked_baskets(),
            self._asked(),
            self._classified(),
            self._published(),
            self._collected(),
        )
        lead = "Each record is blurred before anyone sees it; the counts of the crowd stay sharp."
        return View("Sfumato", words=(lead,), sections=sections)

    def _promised(self) -> View:
        mechanism: Any = self.release.mechanism
        asked = (
            f"{self.rows:,} people of a synthetic health survey answered about {_listed(COLUMNS)}. "
            f"Each record was kept whole with probability {percent(float(mechanism.keep))}, "
            f"and else replaced by one of the {mechanism.domain.cells} possible records at random "
            f"({mechanism.name})."
        )
        secure = self.release.provenance.secure
        drawn = "secure randomness" if secure else "a seed: an experiment, not private"
        promised = (
            f"{mechanism.guarantee}: {promise(mechanism.guarantee, 0.05)}. The noise came from "
            f"{drawn}."
        )
        return View("What was promised", words=(asked, promised))

    @cached_property
    def _cells(self) -> list[tuple[str, str, int, int, Answer]]:
        """Attribute, value, true count, reported count and reconstructed count of every value."""
        binned = self.release.table
        found = []
        for name in COLUMNS:
            truth, estimate = self.truth.marginal([name]), self.release.marginal([name])
            reported = np.bincount(np.asarray(binned.column(name)), minlength=truth.value.size)
            for place, label in enumerate(estimate.cells[0].labels):
                answer = Answer(float(estimate.value[place]), float(estimate.stderr[place]))
                found.append(
                    (name, label, round(float(truth.value[place])), int(reported[place]), answer)
                )
        return found

    def cells_as_json(self) -> list[dict[str, Any]]:
        """The marginals as JSON data."""
        return [
            {
                "attribute": name,
                "value": label,
                "truth": truth,
                "reported": reported,
                "estimate": a.value,
                "stderr": a.stderr,
            }
            for name, label, truth, reported, a in self._cells
        ]

    def _marginals(self) -> View:
        inside = [_covers(answer, truth) for *_, truth, _, answer in self._cells]
        words = f"{sum(inside)} of {len(inside)} intervals at the 95 % level hold the truth."
        names, labels, truths, reported, answers = zip(*self._cells, strict=True)
        columns = [
            ColumnView("attribute", names),
            ColumnView("value", labels),
            ColumnView("truth", truths),
            ColumnView("as reported", reported),
            _answers("reconstructed", answers),
            ColumnView("within 95 %", inside),
        ]
        panels = []
        for name in COLUMNS:
            own = [cell for cell in self._cells if cell[0] == name]
            values, errors = zip(
                *((answer.value, answer.stderr) for *_, answer in own), strict=True
            )
            truth = [true for _, _, true, _, _ in own]
            panels.append(Marginal(name, [label for _, label, *_ in own], values, errors, truth))
        caption = "True counts, and those reconstructed from the perturbed records."
        chart = points(panels, caption, quantity="people")
        table = TableView(columns)
        return View("What was recovered", words=(words,), charts=(chart,), tables=(table,))

    def _question(self) -> View:
        answers = []
        for source in (self.truth, self.release):
            estimate = source.marginal(["smoker", "diabetes"])
            both, smokers = (
                estimate.indicator(smoker="yes", diabetes="yes"),
                estimate.indicator(smoker="yes"),
            )
            answers.append(estimate.ratio(both, smokers))
        truth, answer = answers
        low, high = answer.interval()
        words = (
            f"How many smokers have diabetes? From the perturbed records {percent(answer.value)} ± "
            f"{percent(answer.stderr)}, "
            f"95 % interval {percent(low)} to {percent(high)}; in truth {percent(truth.value)}."
        )
        return View("A question about two columns", words=(words,))

    def _mined(self, title: str, truth: Exact, release: Release) -> View:
        true = {
            itemset.items: itemset.support
            for itemset in frequent_itemsets(truth, MIN_SUPPORT / 2, max_length=2)
        }
        found = [
            itemset
            for itemset in frequent_itemsets(release, MIN_SUPPORT, max_length=2)
            if len(itemset.items) == 2
        ]
        found.sort(key=lambda itemset: -itemset.support)
        first = found[:SHOWN]
        columns = [
            ColumnView("itemset", [" ".join(itemset.items) for itemset in first]),
            ColumnView("true support", [true.get(itemset.items) for itemset in first]),
            ColumnView("reconstructed", [i.support for i in first], [i.stderr for i in first]),
        ]
        words = (
            f"The most frequent of {len(found)} pairs with an estimated support of "
            f"{percent(MIN_SUPPORT, 0)} or more:"
        )
        return View(title, words=(words,), tables=(TableView(columns),))

    def _masked_baskets(self) -> View:
        mechanism: Any = self.masked.mechanism
        words = (
            f"Every bit of {self.rows:,} synthetic baskets over "
            f"{mechanism.domain.attributes[0].size} items was kept with "
            f"probability {KEEP:g} (mask). That promises {mechanism.per_item} about any one item, "
            "about a whole basket less."
        )
        found = self._mined("What goes together in baskets", self.baskets, self.masked)
        return replace(found, words=(words, *found.words))

    @cached_property
    def numbers(self) -> Release:
        """The people with every column kept or redrawn on its own, so that numbers stay numbers."""
        return perturb(
            self.truth.table, Retention(self.truth.domain, COLUMN_KEEP), self.noise.derive(2)
        )

    def _asked(self) -> View:
        found, true = (list(query(source, SQL)) for source in (self.numbers, self.truth))
        columns = [
            ColumnView("sex", [row["sex"] for row in found]),
            _answers("count", [row["count"] for row in found]),
            ColumnView("truth", [round(row["count"].value) for row in true]),
            _answers("average age", [row["avg_age"] for row in found]),
            ColumnView("truth ", [row["avg_age"].value for row in true]),
        ]
        words = (
            f"Every column was kept with probability {COLUMN_KEEP:g} on its own (retention): "
            f"{self.numbers.mechanism.guarantee}."
        )
        title = "SQL, as if the truth were there"
        return View(title, words=(words,), code=SQL, tables=(TableView(columns),))

    def _classified(self) -> View:
        scores = []
        for source in (self.truth, self.numbers):
            classifier = NaiveBayes("diabetes").fit(source)
            chances = classifier.predict_proba(self.truth.table)[
                :, list(classifier.classes_).index("yes")
            ]
            scores.append(roc_area(np.asarray(self.truth.table.column("diabetes")) == 1, chances))
        words = (
            "Naive Bayes for diabetes from age, sex and smoking: area under the curve "
            f"{scores[1]:.3f} learnt from the "
            f"perturbed records, {scores[0]:.3f} from the truth."
        )
        return View("A classifier that never saw a true record", words=(words,))

    def _published(self) -> View:
        few = min(self.rows, PUBLISHED)
        people, _ = survey(few, self.data.derive(2))
        swapped = swap(
            people,
            0.5,
            confidential="income",
            keys=["age", "sex", "region", "systolic"],
            rng=self.noise.derive(3),
        )
        report = swapped.reports[0]
        exchanged = (
            f"Of {few:,} people, {report.changed:,} incomes were exchanged so that age, sex, "
            "region and blood pressure no "
            f"longer give them away; the totals moved by {report.marginal_drift}, and no cheaper "
            "exchange exists."
        )
        best = max(
            (i for i in frequent_itemsets(self.baskets, MIN_SUPPORT) if len(i.items) == 2),
            key=lambda i: i.support,
        )
        hidden = hide(
            self.baskets.table,
            [best.items],
            min_count=round(MIN_SUPPORT * self.rows),
            rng=self.noise.derive(4),
        ).report
        taken = (
            f"The pair {' '.join(best.items)} was taken out of the baskets: "
            f"{hidden.changed_transactions:,} of {self.rows:,} "
            f"baskets changed, {percent(hidden.misses_cost)} of the other frequent itemsets lost."
        )
        return View("What an owner can hand out", words=(exchanged, taken))

    def _collected(self) -> View:
        """A campaign: a server starts, people answer through the real client, it stops."""
        title = "A campaign: each person blurs their own answer"
        try:
            from sfumato.collect.simulating import simulated
        except MissingExtraError as error:
            return View(title, words=(f"Not shown here: {error}.",))
        few = min(self.rows, COLLECTED)
        with TemporaryDirectory() as folder:
            self.truth.domain.project(("sex", "smoker")).save(f"{folder}/survey.toml")
            file = Path(folder, "demo.toml")
            file.write_text(CAMPAIGN, encoding="utf-8")
            people = self.truth.table.slice(0, few)
            truth = people.recode(people.domain.project(("sex", "smoker")))
            found = simulated(str(file), truth, None, f"{folder}/campaign.db")
        words = (
            f"A server was started, {found.stored:,} people answered it over HTTP through the same "
            f"steps that a browser runs, in {found.seconds:.1f} s, and it stopped. "
            "The command sfumato serve offers the same as a form and a dashboard."
        )
        rows = [
            (
                f"{each.question}: {each.answer}",
                *map(percent, (each.truth, each.value)),
                f"{percent(each.low)} – {percent(each.high)}",
            )
            for each in found.compared
        ]
        table = TableView.of(("answer", "truth", "estimate", "95 % interval"), rows)
        return View(title, words=(words,), charts=(_drawn(found.compared),), tables=(table,))


def _drawn(compared: Sequence[Compared]) -> Chart:
    """What people answered, and what the server made of their reports."""
    panels = []
    for name in dict.fromkeys(each.question for each in compared):
        own = [each for each in compared if each.question == name]
        panels.append(
            Marginal(
                name,
                [each.answer for each in own],
                [each.value for each in own],
                [(each.high - each.low) / (2 * REACH) for each in own],
                [each.truth for each in own],
            )
        )
    caption = "True shares of those who answered, and those reconstructed from their reports."
    return points(panels, caption, quantity="share of people")


def _answers(head: str, answers: Sequence[Answer]) -> ColumnView:
    return ColumnView(head, [each.value for each in answers], [each.stderr for each in answers])


def _covers(answer: Answer, truth: float) -> bool:
    low, high = answer.interval(0.95)
    return low <= truth <= high


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
