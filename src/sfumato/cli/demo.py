"""`sfumato demo`: the whole path on synthetic data, as one view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np

from sfumato.cli.options import Json, option
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, print_words, show
from sfumato.cli.summary import promise, summarise
from sfumato.datasets.quest import Quest
from sfumato.datasets.survey import survey
from sfumato.errors import FileError, MissingExtraError
from sfumato.estimation.answer import reach
from sfumato.evaluate import beside_truth
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.cube import query
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.quality import roc_area
from sfumato.printable import percent
from sfumato.privacy.guarantee import Guarantee
from sfumato.publish.hide import hide
from sfumato.publish.swap import swap
from sfumato.randomness import Keystream, secure, seeded
from sfumato.release import Exact, Release, perturb
from sfumato.renderers.picture import estimates
from sfumato.result import save_view
from sfumato.table import Table as Records
from sfumato.view import Chart, ColumnView, TableView, View

COLUMNS = ("age", "sex", "smoker", "diabetes")
PROMISE = Guarantee.from_breach(rho1=0.05, rho2=0.50)
KEEP, COLUMN_KEEP = 0.9, 0.5  # of every bit of a basket, and of every column
MIN_SUPPORT, SHOWN = 0.08, 8
PUBLISHED, COLLECTED = 5_000, 3_000  # people whose records are swapped, and who answer over HTTP
SQL = "SELECT sex, COUNT(*), AVG(age) FROM t WHERE smoker = 'yes' GROUP BY sex"
CAMPAIGN = """\
name = "demo"
title = { en = "Synthetic health survey" }
schema = "survey.toml"
[promise]
gamma = 19
[mechanism]
name = "gamma-diagonal"
"""


def demo(
    output: Annotated[
        Path, option("Where the HTML report goes.", "--output", "-o", metavar="DIR")
    ] = Path("demo-output"),
    rows: Annotated[int, option("How many people, and how many baskets.")] = 100_000,
    seed: Annotated[int | None, option("Draw the noise from this seed: an experiment.")] = None,
    json: Json = False,
) -> None:
    """See the whole path on synthetic data: perturb, reconstruct, mine, ask, classify, publish.
    Writes a report with pictures.

    Example: sfumato demo -o demo-output
    """
    story = Story(rows, seeded(1), secure() if seed is None else seeded(seed))
    view, path = story.view(), output / "report.html"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder '{output}': {error.strerror}") from None
    origin = origin_of("none: people and baskets are synthetic", story.release)
    save_view(with_origin(view, origin), path)
    if json:
        promised = summarise(story.release.provenance, story.release.rows)
        print_json({**promised, "marginals": story.cells, "report": str(path)})
        return
    show(view, most=None)
    print_words(f"\nThe same with pictures: {path}")


@dataclass(frozen=True, eq=False)
class Story:
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
        mechanism = GammaDiagonal.promising(PROMISE, self.truth.domain)
        return perturb(self.truth.table, mechanism, self.noise)

    @cached_property
    def baskets(self) -> Exact:
        """Baskets with patterns in them."""
        made = Quest.from_name("T5.I2.D1K.N50.L20", baskets=self.rows).generate(self.data.derive(1))
        return Exact(Records(made.domain, (made.bits(),)))

    @cached_property
    def numbers(self) -> Release:
        """The people with every column kept or redrawn on its own, so that numbers stay numbers."""
        mechanism = Retention(self.truth.domain, COLUMN_KEEP)
        return perturb(self.truth.table, mechanism, self.noise.derive(2))

    def view(self) -> View:
        """The whole story."""
        sections = (
            self._promised(),
            self._marginals(),
            self._question(),
            _mined("What goes together in the survey", self.truth, self.release),
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
            f"{self.rows:,} people of a synthetic health survey answered about "
            f"{', '.join(COLUMNS[:-1])} and {COLUMNS[-1]}. "
            f"Each record was kept whole with probability {percent(float(mechanism.keep))}, "
            f"and else replaced by one of the {mechanism.domain.cells} possible records at random "
            f"({mechanism.name})."
        )
        drawn = "secure randomness" if self.noise.secure else "a seed: an experiment, not private"
        promised = (
            f"{mechanism.guarantee}: {promise(mechanism.guarantee, 0.05)}. The noise came from "
            f"{drawn}."
        )
        return View("What was promised", words=(asked, promised))

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Every value of every column: its true, its reported and its reconstructed count."""
        found = []
        for name in COLUMNS:
            truth, estimate = self.truth.marginal([name]), self.release.marginal([name])
            counted = np.asarray(self.release.table.column(name))
            columns = {
                "value": estimate.cells[0].labels,
                "truth": np.rint(truth.value).astype(int).tolist(),
                "reported": np.bincount(counted, minlength=truth.value.size).tolist(),
                "estimate": estimate.value.tolist(),
                "stderr": estimate.stderr.tolist(),
            }
            lines = zip(*columns.values(), strict=True)
            found += [
                {"attribute": name, **dict(zip(columns, line, strict=True))} for line in lines
            ]
        return found

    def _marginals(self) -> View:
        column = {name: [cell[name] for cell in self.cells] for name in self.cells[0]}
        half = reach(0.95)
        inside = [abs(c["estimate"] - c["truth"]) <= half * c["stderr"] for c in self.cells]
        words = f"{sum(inside)} of {len(inside)} intervals at the 95 % level hold the truth."
        columns = [
            ColumnView("attribute", column["attribute"]),
            ColumnView("value", column["value"]),
            ColumnView("truth", column["truth"]),
            ColumnView("as reported", column["reported"]),
            ColumnView("reconstructed", column["estimate"], column["stderr"]),
            ColumnView("within 95 %", inside),
        ]
        caption = "True counts, and those reconstructed from the perturbed records."
        chart, table = _drawn(self.cells, caption, "people"), TableView(columns)
        return View("What was recovered", words=(words,), charts=(chart,), tables=(table,))

    def _question(self) -> View:
        answers = []
        for source in (self.truth, self.release):
            estimate = source.marginal(["smoker", "diabetes"])
            both = estimate.indicator(smoker="yes", diabetes="yes")
            answers.append(estimate.ratio(both, estimate.indicator(smoker="yes")))
        truth, answer = answers
        low, high = answer.interval()
        words = (
            f"How many smokers have diabetes? From the perturbed records {percent(answer.value)} ± "
            f"{percent(answer.stderr)}, "
            f"95 % interval {percent(low)} to {percent(high)}; in truth {percent(truth.value)}."
        )
        return View("A question about two columns", words=(words,))

    def _masked_baskets(self) -> View:
        mechanism = BitFlip(self.baskets.domain, KEEP, KEEP)
        masked = perturb(self.baskets.table, mechanism, self.noise.derive(1))
        words = (
            f"Every bit of {self.rows:,} synthetic baskets over "
            f"{mechanism.domain.attributes[0].size} items was kept with "
            f"probability {KEEP:g} (mask). That promises {mechanism.per_item} about any one item, "
            "about a whole basket less."
        )
        found = _mined("What goes together in baskets", self.baskets, masked)
        return replace(found, words=(words, *found.words))

    def _asked(self) -> View:
        found, true = (list(query(source, SQL)) for source in (self.numbers, self.truth))
        count, age = ([row[name] for row in found] for name in ("count", "avg_age"))
        columns = [
            ColumnView("sex", [row["sex"] for row in found]),
            ColumnView("count", [each.value for each in count], [each.stderr for each in count]),
            ColumnView("truth", [round(row["count"].value) for row in true]),
            ColumnView("average age", [each.value for each in age], [each.stderr for each in age]),
            ColumnView("truth ", [row["avg_age"].value for row in true]),
        ]
        words = (
            f"Every column was kept with probability {COLUMN_KEEP:g} on its own (retention): "
            f"{self.numbers.mechanism.guarantee}."
        )
        title = "SQL, as if the truth were there"
        return View(title, words=(words,), code=SQL, tables=(TableView(columns),))

    def _classified(self) -> View:
        ill, scores = np.asarray(self.truth.table.column("diabetes")) == 1, []
        for source in (self.truth, self.numbers):
            fitted = NaiveBayes("diabetes").fit(source)
            chances = fitted.predict_proba(self.truth.table)
            scores.append(roc_area(ill, chances[:, list(fitted.classes_).index("yes")]))
        words = (
            "Naive Bayes for diabetes from age, sex and smoking: area under the curve "
            f"{scores[1]:.3f} learnt from the "
            f"perturbed records, {scores[0]:.3f} from the truth."
        )
        return View("A classifier that never saw a true record", words=(words,))

    def _published(self) -> View:
        few = min(self.rows, PUBLISHED)
        people, _ = survey(few, self.data.derive(2))
        keys = ["age", "sex", "region", "systolic"]
        swapped = swap(people, 0.5, confidential="income", keys=keys, rng=self.noise.derive(3))
        report = swapped.reports[0]
        exchanged = (
            f"Of {few:,} people, {report.changed:,} incomes were exchanged so that age, sex, "
            "region and blood pressure no "
            f"longer give them away; the totals moved by {report.marginal_drift}, and no cheaper "
            "exchange exists."
        )
        pairs = (i for i in frequent_itemsets(self.baskets, MIN_SUPPORT) if len(i.items) == 2)
        best = max(pairs, key=lambda pair: pair.support)
        least = round(MIN_SUPPORT * self.rows)
        rng = self.noise.derive(4)
        hidden = hide(self.baskets.table, [best.items], min_count=least, rng=rng).report
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
            from sfumato.cli.simulate import compared_table
            from sfumato.collect.simulating import simulated
        except MissingExtraError as error:
            return View(title, words=(f"Not shown here: {error}.",))
        people = self.truth.table.slice(0, min(self.rows, COLLECTED))
        domain = people.domain.project(("sex", "smoker"))
        with TemporaryDirectory() as folder:
            domain.save(f"{folder}/survey.toml")
            file = Path(folder, "demo.toml")
            file.write_text(CAMPAIGN, encoding="utf-8")
            found = simulated(str(file), people.recode(domain), None, f"{folder}/campaign.db")
        words = (
            f"A server was started, {found.stored:,} people answered it over HTTP through the same "
            f"steps that a browser runs, in {found.seconds:.1f} s, and it stopped. "
            "The command sfumato serve offers the same as a form and a dashboard."
        )
        cells = [
            {
                "attribute": each.question,
                "value": each.answer,
                "truth": each.truth,
                "estimate": each.value,
                "stderr": (each.high - each.low) / (2 * reach(0.95)),
            }
            for each in found.compared
        ]
        caption = "True shares of those who answered, and those reconstructed from their reports."
        chart = _drawn(cells, caption, "share of people")
        return View(
            title, words=(words,), charts=(chart,), tables=(compared_table(found.compared),)
        )


def _mined(title: str, truth: Exact, release: Release) -> View:
    """The most frequent pairs of a release, each beside its true support."""
    mined = beside_truth(frequent_itemsets(release, MIN_SUPPORT, max_length=2), truth)
    places = [place for place in mined.order("support") if len(mined.items[place]) == 2]
    first, true = places[:SHOWN], mined.true_support
    assert true is not None
    columns = [
        ColumnView("itemset", [" ".join(mined.items[place]) for place in first]),
        ColumnView("true support", true[first].tolist()),
        ColumnView("reconstructed", mined.support[first].tolist(), mined.stderr[first].tolist()),
    ]
    words = (
        f"The most frequent of {len(places)} pairs with an estimated support of "
        f"{percent(MIN_SUPPORT, 0)} or more:"
    )
    return View(title, words=(words,), tables=(TableView(columns),))


def _drawn(cells: Sequence[dict[str, Any]], caption: str, quantity: str) -> Chart:
    """What is estimated of each attribute, beside the truth."""
    panels = []
    for name in dict.fromkeys(cell["attribute"] for cell in cells):
        own = [cell for cell in cells if cell["attribute"] == name]
        values, errors, truth = ([c[kind] for c in own] for kind in ("estimate", "stderr", "truth"))
        labels = [cell["value"] for cell in own]
        panels.append(estimates(name, labels, values, errors, truth, quantity=quantity))
    return Chart(panels, caption)
