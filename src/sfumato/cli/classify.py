"""`sfumato classify`: a classifier from reconstructed counts, and how good it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    Engine,
    Fit,
    Force,
    Json,
    NoCache,
    Schema,
    among,
    check_drawing_target,
)
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, show, telling
from sfumato.cli.sources import read_source, read_truth
from sfumato.errors import ParameterError, near_miss
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.classifier import Classifier
from sfumato.mine.features import domain_of_tests
from sfumato.mine.quality import Concurrence, Quality
from sfumato.mine.tree import DecisionTree
from sfumato.result import save_view
from sfumato.source import Exact, Source
from sfumato.table import Table, reader_of
from sfumato.view import TableView, View

TREE, BAYES = "tree", "bayes"
GROWTH, JUDGED = "How the tree grows", "How it is judged"


def classify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A perturbed file, or true records; - is standard input."
        ),
    ],
    target: Annotated[str, typer.Option(metavar="A", help="The attribute to predict.")],
    model: Annotated[
        str,
        typer.Option(
            help="tree: a decision tree; bayes: naive Bayes.",
            autocompletion=among(("tree", "bayes")),
        ),
    ] = TREE,
    features: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Predict from these attributes only, comma separated."),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Records to judge by, true or perturbed, with the target.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="The true records: compare with a classifier from them.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    criterion: Annotated[
        str, typer.Option(help="gini, entropy or gain-ratio.", rich_help_panel=GROWTH)
    ] = "gini",
    max_depth: Annotated[
        int, typer.Option(help="The longest way to a leaf.", rich_help_panel=GROWTH)
    ] = 6,
    min_rows: Annotated[
        float, typer.Option(help="The least number of people in a branch.", rich_help_panel=GROWTH)
    ] = 20,
    significance: Annotated[
        float,
        typer.Option(
            help="Split only if chance gains as much less often than this.", rich_help_panel=GROWTH
        ),
    ] = 0.05,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Cut off what does not surely change labels for the better.",
            rich_help_panel=GROWTH,
        ),
    ] = False,
    schema: Schema = None,
    engine: Engine = None,
    fit: Fit = False,
    no_cache: NoCache = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the tree: .html, .png or .svg.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a classifier from perturbed (or true) records without seeing a true one.

    Example: sfumato classify census.parquet --target income --test adult-test.csv
    """
    check_drawing_target(plot, force)
    options = {
        "criterion": criterion,
        "max_depth": max_depth,
        "min_rows": min_rows,
        "significance": significance,
        "prune": prune,
    }
    classifier = make(model, target, features, options)
    if plot is not None and model != TREE:
        raise ParameterError("--plot draws a tree", hint="use --model tree, or leave --plot out")
    with telling() as told:
        source = read_source(file, schema, None, engine, cache=not no_cache, fit=fit, tell=told)
        if truth is not None and isinstance(source, Exact):
            raise ParameterError(
                f"'{file}' is itself the truth", hint="--truth goes with a perturbed file"
            )
        exact = None if truth is None else read_truth(truth, source, tell=told)
        classifier.fit(source, progress=lambda share: told("growing the tree", share))
        told("judging it", None)
        records = read_test(test, classifier, source) if test is not None else exact
        found = judged(classifier, source, records)
        direct = None if exact is None else make(model, target, features, options)
        compared = None
        if direct is not None:
            direct.fit(exact, progress=lambda share: told("growing one from the truth", share))
            compared = judged(direct, source, records)
    where = judged_on(test, truth)
    view = seen(classifier, source.rows, where, found, compared)
    if plot is not None:
        save_view(with_origin(view, origin_of(file, source)), plot)
    if json:
        print_json(result_dict(classifier, model, source, where, found, compared))
    else:
        show(view, most=None)


def judged_on(test: str | None, truth: str | None) -> str:
    """Which records the classifier is judged on, in words."""
    if test:
        return "the test records"
    return "the true records" if truth else "the records it was trained on"


def make(model: str, target: str, features: str | None, options: dict[str, Any]) -> Classifier:
    """The classifier that was asked for, not yet fitted."""
    names = (
        None if features is None else [name.strip() for name in features.split(",") if name.strip()]
    )
    if model == TREE:
        return DecisionTree(target, features=names, **options)
    if model == BAYES:
        return NaiveBayes(target, features=names)
    raise ParameterError(
        f"no model '{model}' ({TREE}, {BAYES})", hint=near_miss(model, (TREE, BAYES))
    )


def read_test(test: str, classifier: Classifier, source: Source) -> Table:
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


def judged(classifier: Classifier, source: Source, records: Any) -> Quality | None:
    """How good the classifier is on labelled records; without any, on those it was trained on as
    far as they can tell.
    """
    if records is not None:
        return classifier.quality(records)
    if isinstance(classifier, DecisionTree):
        return classifier.tree_.quality()
    return classifier.quality(source) if isinstance(source, Exact) else None


def notes_of(classifier: Classifier, where: str, found: Quality | None) -> tuple[str, ...]:
    """What must be said of the classifier and of how it is judged."""
    if found is None:
        return (*classifier.notes_, "nothing to judge the classifier by; give --test")
    flattered = f"judged on {where}, which flatters it; give --test"
    own = [flattered] if where.endswith("trained on") else []
    return (*classifier.notes_, *own, *found.verdict)


def result_dict(
    classifier: Classifier,
    model: str,
    source: Source,
    where: str,
    found: Quality | None,
    compared: Quality | None,
) -> dict[str, Any]:
    """The JSON shape of the command."""
    result: dict[str, Any] = {
        "target": classifier.target,
        "model": model,
        "rows": source.rows,
        "judged_on": where,
    }
    result |= (
        found.to_dict()
        if found is not None
        else {"accuracy": None, "balanced_accuracy": None, "auc": None}
    )
    result["tree"] = classifier.text() if isinstance(classifier, DecisionTree) else None
    result["evidence"] = classifier.text() if isinstance(classifier, NaiveBayes) else None
    if found is not None and compared is not None:
        agreement = Concurrence.between(found, compared)
        result |= {"truth": compared.to_dict(), "agreement": vars(agreement)}
    return result | {"notes": [*notes_of(classifier, where, found)]}


def seen(
    classifier: Classifier, rows: int, where: str, found: Quality | None, compared: Quality | None
) -> View:
    """What was learned, and how good it is, beside one from the truth."""
    features = len(classifier.feature_names_in_)
    return replace(
        classifier.view(),
        words=(f"{classifier.target} from {features} attributes of {rows:,} people",),
        notes=notes_of(classifier, where, found),
        sections=() if found is None else (_judgement(where, found, compared),),
    )


def _judgement(where: str, found: Quality, compared: Quality | None) -> View:
    both = {"from this file": found} | ({} if compared is None else {"from the truth": compared})
    heads = ("", *(name for name, _ in found.figures))
    lines = [(name, *(figure for _, figure in each.figures)) for name, each in both.items()]
    words = ""
    if compared is not None:
        shares = vars(Concurrence.between(found, compared)).items()
        words = "the two classifiers: " + ", ".join(
            f"{name.replace('_', ' ')} {100 * share:.1f} %" for name, share in shares
        )
    tables = (TableView.of(heads, lines), *found.view().tables)
    return View(f"judged on {where}", (words,) if words else (), tables=tables)
