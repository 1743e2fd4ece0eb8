"""`sfumato classify`: a classifier from reconstructed counts, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from sfumato.cli.options import Asked, Options, option
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar
from sfumato.cli.sources import Reading, read_truth
from sfumato.errors import ParameterError, near_miss
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.classifier import Classifier
from sfumato.mine.features import domain_of_tests
from sfumato.mine.quality import Quality
from sfumato.mine.tree import DecisionTree
from sfumato.release import Exact
from sfumato.source import Source
from sfumato.table import Table, reader_of
from sfumato.view import TableView, View

TREE, BAYES = "tree", "bayes"
grown = partial(option, panel="How the tree grows")
judging = partial(option, panel="How it is judged")


@dataclass(frozen=True)
class Growth(Options):
    """How a tree grows."""

    criterion: Annotated[str, grown("gini, entropy or gain-ratio.")] = "gini"
    max_depth: Annotated[int, grown("The longest way to a leaf.")] = 6
    min_rows: Annotated[float, grown("The least number of people in a branch.")] = 20
    significance: Annotated[
        float, grown("Split only if chance gains as much less often than this.")
    ] = 0.05
    prune: Annotated[bool, grown("Cut off what does not surely change labels for the better.")] = (
        False
    )


def classify(
    file: Asked,
    target: Annotated[str, option("The attribute to predict.", metavar="A")],
    model: Annotated[
        str, option("tree: a decision tree; bayes: naive Bayes.", known=(TREE, BAYES))
    ] = TREE,
    features: Annotated[
        str | None,
        option("Predict from these attributes only, comma separated.", metavar="A,B,…"),
    ] = None,
    test: Annotated[
        str | None,
        judging("Records to judge by, true or perturbed, with the target.", metavar="DATA"),
    ] = None,
    truth: Annotated[
        str | None,
        judging("The true records: compare with a classifier from them.", metavar="DATA"),
    ] = None,
    growth: Growth = Growth(),
    reading: Reading = Reading(),
    given: Given = Given(),
) -> None:
    """Learn a classifier from perturbed (or true) records without seeing a true one.

    Example: sfumato classify census.parquet --target income --test adult-test.csv
    """
    given.check()
    make = partial(_classifier, model, target, features, growth)
    classifier, direct = make(), None if truth is None else make()
    if given.plot is not None and model != TREE:
        raise ParameterError("--plot draws a tree", hint="use --model tree, or leave --plot out")
    with progress_bar() as tell:
        source = reading.source(file, tell)
        exact = None if truth is None else read_truth(file, truth, source, tell=tell)
        classifier.fit(source, progress=lambda share: tell("growing the tree", share))
        tell("judging it", None)
        records = _tests(test, classifier, source) if test is not None else exact
        found, compared = _judged(classifier, source, records), None
        if direct is not None:
            direct.fit(exact, progress=lambda share: tell("growing one from the truth", share))
            compared = _judged(direct, source, records)
    where = "the true records" if truth else "the records it was trained on"
    where = "the test records" if test else where
    view = _view(classifier, source.rows, where, found, compared)
    given.draw(view, file, source)
    known = {"target": target, "model": model, "rows": source.rows, "judged_on": where}
    given.give(view, lambda: known | _result(classifier, where, found, compared), most=None)


def _classifier(model: str, target: str, features: str | None, growth: Growth) -> Classifier:
    """The classifier that was asked for, not yet fitted."""
    names = (
        None if features is None else [name.strip() for name in features.split(",") if name.strip()]
    )
    if model == TREE:
        return DecisionTree(target, features=names, **vars(growth))
    if model == BAYES:
        return NaiveBayes(target, features=names)
    raise ParameterError(
        f"no model '{model}' ({TREE}, {BAYES})", hint=near_miss(model, (TREE, BAYES))
    )


def _tests(test: str, classifier: Classifier, source: Source) -> Table:
    """The test records: perturbed ones as they are, true ones by the domain of the training
    records.
    """
    reader = reader_of(test)
    if reader.provenance is not None:
        return reader.table(reader.provenance.mechanism.reports)
    domain = source.domain
    if domain.baskets:
        return reader.table(domain)
    return reader.table(
        domain_of_tests(domain, [*map(str, classifier.feature_names_in_), classifier.target])
    )


def _judged(classifier: Classifier, source: Source, records: Any) -> Quality | None:
    """How good the classifier is on labelled records; without any, on those it was trained on as
    far as they can tell.
    """
    if records is not None:
        return classifier.quality(records)
    if isinstance(classifier, DecisionTree):
        return classifier.tree_.quality()
    return classifier.quality(source) if isinstance(source, Exact) else None


def _notes(classifier: Classifier, where: str, found: Quality | None) -> tuple[str, ...]:
    """What must be said of the classifier and of how it is judged."""
    if found is None:
        return (*classifier.notes_, "nothing to judge the classifier by; give --test")
    flattered = f"judged on {where}, which flatters it; give --test"
    own = [flattered] if where.endswith("trained on") else []
    return (*classifier.notes_, *own, *found.verdict)


def _result(
    classifier: Classifier, where: str, found: Quality | None, compared: Quality | None
) -> dict[str, Any]:
    """What was learned and how good it is, as JSON holds it."""
    unknown = dict.fromkeys(("accuracy", "balanced_accuracy", "auc"))
    result: dict[str, Any] = unknown if found is None else found.to_dict()
    result["tree"] = classifier.text() if isinstance(classifier, DecisionTree) else None
    result["evidence"] = classifier.text() if isinstance(classifier, NaiveBayes) else None
    if found is not None and compared is not None:
        result |= {"truth": compared.to_dict(), "agreement": found.agreement(compared)}
    return result | {"notes": [*_notes(classifier, where, found)]}


def _view(
    classifier: Classifier, rows: int, where: str, found: Quality | None, compared: Quality | None
) -> View:
    """What was learned, and how good it is, beside one from the truth."""
    features = len(classifier.feature_names_in_)
    return replace(
        classifier.view(),
        words=(f"{classifier.target} from {features} attributes of {rows:,} people",),
        notes=_notes(classifier, where, found),
        sections=() if found is None else (_judgement(where, found, compared),),
    )


def _judgement(where: str, found: Quality, compared: Quality | None) -> View:
    both = {"from this file": found} | ({} if compared is None else {"from the truth": compared})
    heads = ("", *(name for name, _ in found.figures))
    lines = [(name, *(figure for _, figure in each.figures)) for name, each in both.items()]
    words = ""
    if compared is not None:
        shares = found.agreement(compared).items()
        words = "the two classifiers: " + ", ".join(
            f"{name.replace('_', ' ')} {100 * share:.1f} %" for name, share in shares
        )
    tables = (TableView.of(heads, lines), *found.view().tables)
    return View(f"judged on {where}", (words,) if words else (), tables=tables)
