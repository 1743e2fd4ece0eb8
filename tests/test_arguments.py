"""Wrong arguments: every public name of the library, and every method of what they return, called
with one argument that will not do, says so in one line of ours; no exception from inside comes
through.

Each call below is valid as it stands. One argument at a time is then replaced by some of WRONG.
What comes back may be a result (the value will do after all) or a `SfumatoError` of one line. A
public callable that takes arguments and is not called here fails the first test.
"""

from __future__ import annotations

import functools
import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.channels import NotLumpableError
from sfumato.errors import PrivacyError, Unanswerable
from sfumato.mechanisms.base import Mechanism

matplotlib.use("Agg")

SECRET = "zanzibar"
WRONG: dict[str, Any] = {
    "None": None,
    "no letters": "",
    "a word": "nonsense",
    "-1": -1,
    "0": 0,
    "1e308": 1e308,
    "nan": math.nan,
    "inf": math.inf,
    "[]": [],
    "[None]": [None],
    "{}": {},
    "object()": object(),
    "an array": np.arange(3.0),
    "a frame": pd.DataFrame({"other": [1, 2]}),
    "bytes": b"bytes",
    "a long word": "long" * 5000,
    "a missing file": Path("no") / "such" / "file.parquet",
}
# Parameters that any value is right for, or that are handed on to another library as they are.
FREE = {
    "axes": "of a picture: matplotlib's own, which says itself what it wants",
    "estimator": "of Reconstructed: scikit-learn's own, cloned and fitted by it",
}
# Public callables that are not called here.
NOT_CALLED = {
    "SfumatoError": "raised by us; what it is given is shown as it is",
    "Model.moments": "a model knows no sums of numbers, and says so whatever is asked",
}
# What a mechanism answers to the library itself, which asks with arrays and cells that it has
# worked out: of these the kinds are checked at every call, what they hold is not.
INNER = (
    *("randomise", "observe_private", "private_likelihood", "most_likely"),
    *("predicted_variance", "modelled_variance"),
)
HELD = ("[]", "an array")
LONGEST = 500
TRIED = 7  # of the wrong values, for each argument

PEOPLE = {
    "sex": ["f", "m", "m", "f"] * 50,
    "smoker": ["no", "no", "yes", "no"] * 50,
    "ill": ["no", "yes", "no", "no", "no"] * 40,
}
BASKETS = [["tea", "milk"], ["tea"], ["tea", "jam"], ["jam"]] * 20
SQL = "SELECT sex, COUNT(*) FROM t WHERE smoker = 'yes' GROUP BY sex"


@functools.cache
def things() -> dict[str, Any]:
    """What calls are made with, worked out once."""
    made: dict[str, Any] = {}
    made["domain"] = sf.propose_schema(PEOPLE)
    made["shop"] = sf.Domain((sf.Items("items", ("tea", "milk", "jam")),))
    made["table"] = sf.read(PEOPLE)
    made["baskets"] = sf.read({"items": BASKETS}, made["shop"])
    made["release"] = sf.perturb(PEOPLE, sf.GammaDiagonal(made["domain"], 19), sf.seeded(1))
    made["exact"] = sf.Exact(made["table"])
    made["estimate"] = made["release"].marginal(["sex", "smoker"])
    made["model"] = sf.fit(made["release"], order=2)
    made["found"] = sf.mine(BASKETS, 0.2)
    made["numbers"] = sf.Numeric("age", 0, 99, cuts=(30, 60))
    made["tree"] = sf.DecisionTree("ill").fit(made["exact"])
    made["bayes"] = sf.NaiveBayes("ill").fit(made["exact"])
    made["guarantee"] = sf.Guarantee(19)
    return made


def thing(name: str) -> Any:
    return things()[name]


@functools.cache
def results() -> dict[str, Any]:
    """What public functions return that has no public name, one of each kind, by its class."""
    rng, exact, release = sf.seeded(1), thing("exact"), thing("release")
    owned = {"confidential": "ill", "keys": ["sex", "smoker"]}
    swapped = sf.swap(PEOPLE, 0.2, **owned, rng=rng)
    hidden = sf.hide(BASKETS, [["tea", "jam"]], min_count=3, rng=rng)
    prammed = sf.pram(PEOPLE, ["ill"], gamma=19, rng=rng)
    suppressed = sf.suppress(PEOPLE, 2, keys=["sex"], rng=rng)
    plan = sf.plan(thing("domain"), 1000, gamma=19)
    ordered = sf.perturb(PEOPLE, release.mechanism, rng, keep_order=True)
    errors = sf.itemset_errors(thing("found"), thing("found"))
    made = (
        *(thing("found"), sf.association_rules(thing("found"), min_threshold=0.5)),
        *(sf.query(release, SQL), plan, plan.best, sf.audit(ordered, exact, rng=rng)),
        *(sf.identify(PEOPLE, **owned), swapped, swapped.reports[0], hidden, hidden.report),
        *(prammed, prammed.reports[0], suppressed, suppressed.report, errors[0]),
        *(thing("tree").quality(PEOPLE), sf.DecisionTree("smoker").fit(exact).tree_),
    )
    return {type(each).__name__: each for each in made}


def mechanisms() -> dict[str, tuple[type[Mechanism], dict[str, Any]]]:
    """Each public mechanism with what makes one."""
    domain, shop, sex = thing("domain"), thing("shop"), thing("domain").project(["sex"])
    coin = sf.Retention(sex, 0.5)
    return {
        "BitFlip": (sf.BitFlip, {"domain": shop, "keep_ones": 0.9, "keep_zeros": 0.9}),
        "Combined": (sf.Combined, {"domain": sex, "parts": (coin,)}),
        "CutAndPaste": (sf.CutAndPaste, {"domain": shop, "cutoff": 2, "insert": 0.3}),
        "FrequencyFlip": (
            sf.FrequencyFlip,
            {"domain": shop, "frequent": ("tea",), "fp": 0.9, "nfp": 0.8},
        ),
        "GammaDiagonal": (sf.GammaDiagonal, {"domain": domain, "gamma": 19}),
        "HadamardResponse": (sf.HadamardResponse, {"domain": domain, "gamma": 19}),
        "Permuting": (sf.Permuting, {"domain": domain, "keep": 0.5}),
        "Questionnaire": (
            sf.Questionnaire,
            {
                "domain": domain,
                "gamma": 19,
                "questions": sf.Questionnaire.promising(thing("guarantee"), domain).questions,
            },
        ),
        "RandomizedGamma": (sf.RandomizedGamma, {"domain": domain, "gamma": 19, "spread": 0.3}),
        "Retention": (sf.Retention, {"domain": domain, "keep": 0.5, "replace": "uniform"}),
        "SubsetSelection": (sf.SubsetSelection, {"domain": domain, "gamma": 19, "chosen": 2}),
        "UnaryEncoding": (sf.UnaryEncoding, {"domain": domain, "false": 1 << 14}),
        "UserMatrix": (
            sf.UserMatrix,
            {"domain": sex, "matrix": np.array([[0.8, 0.2], [0.2, 0.8]])},
        ),
    }


Call = tuple[Callable[..., Any], dict[str, Any]]


def calls(folder: Path) -> dict[str, Call]:
    """A valid call of every public callable, by its name."""
    release, exact, domain = thing("release"), thing("exact"), thing("domain")
    model, found, coin = thing("model"), thing("found"), domain.project(["sex"])
    rng = sf.seeded(1)
    toml, kept, fitted = folder / "s.toml", folder / "r.parquet", folder / "m.json"
    domain.save(toml)
    release.save(kept, force=True)
    sf.save_model(model, fitted, force=True)
    promise = {"rho1": None, "rho2": None, "epsilon": None, "gamma": 19}
    owner = {"bins": None, "max_gain": None, "rng": rng, "progress": lambda words, share: None}
    named: dict[str, Call] = {
        "association_rules": (
            sf.association_rules,
            {
                "itemsets": found,
                "metric": "confidence",
                "min_threshold": 0.5,
                "min_confidence": None,
                "max_consequents": None,
                "level": None,
                "max_rules": 1000,
            },
        ),
        "audit": (
            sf.audit,
            {
                "release": release,
                "truth": exact,
                "order": None,
                "rng": rng,
                "rho1": 0.05,
                "rho2": 0.5,
                "false_alarm": 0.001,
            },
        ),
        "audit_release": (
            sf.audit_release,
            {
                "release": release,
                "truth": exact,
                "order": None,
                "rng": rng,
                "rho1": 0.05,
                "rho2": 0.5,
                "false_alarm": 0.001,
                "progress": None,
            },
        ),
        "classify": (
            sf.classify,
            {
                "data": exact,
                "target": "ill",
                "model": "tree",
                "features": ["sex"],
                "schema": None,
                "max_depth": 2,
            },
        ),
        "combine": (sf.combine, {"sources": [release, release], "alike": True}),
        "compare": (
            sf.compare,
            {
                "data": exact,
                "by": "sex",
                "of": "ill",
                "power": 0.1,
                "level": 0.9,
                "rows_fixed": False,
                "schema": None,
            },
        ),
        "fit": (sf.fit, {"data": release, "order": 2}),
        "fit_release": (sf.fit_release, {"release": release, "order": 2, "tell": lambda *_: None}),
        "frequent_itemsets": (
            sf.frequent_itemsets,
            {
                "source": exact,
                "min_support": 0.2,
                "min_count": None,
                "max_length": 2,
                "relax": 0.0,
                "level": None,
                "top": None,
                "prune_errors": 2.0,
                "max_candidates": 1000,
                "progress": None,
            },
        ),
        "hide": (
            sf.hide,
            {
                "baskets": BASKETS,
                "patterns": [["tea", "jam"]],
                "min_support": None,
                "min_count": 3,
                "min_confidence": None,
                "items": None,
                "method": "cover",
                "disclosure": None,
                "margin": 0,
                "seconds": 1.0,
                "max_gain": None,
                "rng": rng,
                "progress": lambda words, share: None,
            },
        ),
        "identify": (
            sf.identify,
            {
                "data": PEOPLE,
                "confidential": "ill",
                "keys": ["sex"],
                "bins": None,
                "weights": None,
                "population": None,
                "try_bins": 2,
                "progress": lambda words, share: None,
            },
        ),
        "itemset_errors": (sf.itemset_errors, {"found": found, "truth": found}),
        "join": (
            sf.join,
            {"left": joined("sex"), "right": joined("smoker"), "key": "key"},
        ),
        "mine": (
            sf.mine,
            {"data": BASKETS, "min_support": 0.2, "schema": None, "names": None, "max_length": 2},
        ),
        "open": (sf.open, {"path": kept}),
        "open_model": (sf.open_model, {"path": fitted}),
        "open_source": (
            sf.open_source,
            {"place": kept, "engine": None, "schema": None, "cache": False},
        ),
        "perturb": (
            sf.perturb,
            {
                "records": PEOPLE,
                "mechanism": sf.GammaDiagonal(domain, 19),
                "rng": rng,
                "schema": domain,
                **promise,
                "gamma": None,
                "purpose": "itemsets",
                "target": None,
                "copies": 1,
                "keep_order": False,
                "items": None,
                "round": None,
                "after": (),
                "find": None,
            },
        ),
        "plan": (
            sf.plan,
            {
                "data": coin,
                "rows": 1000,
                **promise,
                "purpose": "counts",
                "wanted_error": None,
                "at_support": 0.02,
                "length": None,
                "target": None,
                "pairs": (),
            },
        ),
        "plan_release": (
            sf.plan_release,
            {
                "domain": coin,
                "rows": 1000,
                "guarantee": thing("guarantee"),
                "wanted_error": None,
                "at_support": 0.02,
                "purpose": "counts",
                "length": None,
                "target": None,
                "pairs": (),
                "rho1": 0.05,
            },
        ),
        "pram": (
            sf.pram,
            {
                "data": PEOPLE,
                "columns": ["ill"],
                "gamma": 19,
                "keep": None,
                "jointly": False,
                "within": (),
                **owner,
            },
        ),
        "propose_schema": (sf.propose_schema, {"data": PEOPLE}),
        "query": (sf.query, {"data": release, "sql": SQL, "method": "invert", "schema": None}),
        "read": (sf.read, {"source": PEOPLE, "schema": domain}),
        "reblur": (sf.reblur, {"release": release, **promise, "gamma": 5, "rng": rng}),
        "read_restrictions": (
            sf.read_restrictions,
            {"lines": ["tea jam"], "names": ["tea", "jam"]},
        ),
        "regress": (
            sf.regress,
            {
                "data": exact,
                "formula": "ill ~ sex",
                "family": "logit",
                "reference": {"sex": "f"},
                "rows_fixed": True,
                "schema": None,
            },
        ),
        "sample": (sf.sample, {"model": model, "rows": 5, "rng": rng}),
        "save_model": (
            sf.save_model,
            {"model": model, "path": folder / "n.json", "force": True},
        ),
        "save_release": (
            sf.save_release,
            {"release": release, "url": f"duckdb://{folder}/kept.duckdb#t", "force": True},
        ),
        "seeded": (sf.seeded, {"seed": 1}),
        "suppress": (
            sf.suppress,
            {
                "data": PEOPLE,
                "k": 2,
                "keys": ["sex"],
                "confidential": None,
                "seconds": 1.0,
                **owner,
            },
        ),
        "swap": (
            sf.swap,
            {
                "data": PEOPLE,
                "proportion": 0.2,
                "confidential": "ill",
                "keys": ["sex"],
                "method": "optimal",
                "jointly": False,
                "max_posterior": None,
                "drift": 0,
                "release_raw": False,
                **owner,
            },
        ),
    }
    return named | constructions() | methods(folder) | of_mechanisms(folder) | of_results(folder)


def joined(column: str) -> sf.Release:
    """A release of one column beside the key that two are joined by."""
    domain = sf.Domain(
        (
            sf.Category("key", tuple(map(str, range(200))), public=True),
            sf.propose_schema(PEOPLE)[column],
        )
    )
    return sf.perturb(
        {"key": [str(each) for each in range(200)], column: PEOPLE[column]},
        sf.GammaDiagonal(domain, 19),
        sf.seeded(1),
    )


def constructions() -> dict[str, Call]:
    """What makes each public class."""
    table, model, estimate = thing("table"), thing("model"), thing("estimate")
    whole: dict[str, Call] = {
        "Answer": (
            sf.Answer,
            {
                "value": 1.0,
                "stderr": 1.0,
                "sampling": False,
                "assumes": None,
                "possible": (0.0, 2.0),
            },
        ),
        "Bins": (
            sf.Bins,
            {
                "name": "age",
                "edges": (0, 30, 99),
                "step": 1.0,
                "clip": False,
                "missing": None,
                "public": False,
            },
        ),
        "Category": (
            sf.Category,
            {
                "name": "sex",
                "values": ("f", "m"),
                "other": None,
                "missing": None,
                "public": False,
            },
        ),
        "DecisionTree": (
            sf.DecisionTree,
            {
                "target": "ill",
                "features": None,
                "criterion": "gini",
                "max_depth": 2,
                "min_rows": 20,
                "significance": 0.05,
                "prune": False,
                "most_cells": 32,
            },
        ),
        "Domain": (sf.Domain, {"attributes": thing("domain").attributes, "title": None}),
        "Estimate": (
            sf.Estimate,
            {
                "cells": estimate.cells,
                "rows": estimate.rows,
                "evidence": estimate.evidence,
                "copies": 1,
            },
        ),
        "Exact": (sf.Exact, {"records": table}),
        "Guarantee": (sf.Guarantee, {"gamma": 19}),
        "Items": (sf.Items, {"name": "items", "values": ("tea", "jam"), "public": False}),
        "Model": (
            sf.Model,
            {
                "mechanism": model.mechanism,
                "columns": model.columns,
                "reports": model.reports,
                "order": 2,
                "fitted_to": model.fitted_to,
                "known": None,
                "joined": None,
                "by_model": False,
                "free": False,
                "tell": lambda *_: None,
            },
        ),
        "NaiveBayes": (
            sf.NaiveBayes,
            {"target": "ill", "features": None, "smoothing": 1.0, "most_cells": 16},
        ),
        "Numeric": (
            sf.Numeric,
            {
                "name": "age",
                "min": 0,
                "max": 99,
                "cuts": (30,),
                "step": None,
                "clip": False,
                "missing": None,
                "public": False,
                "zero": False,
            },
        ),
        "Reconstructed": (
            sf.Reconstructed,
            {"target": "ill", "estimator": None, "features": None, "most_cells": 8},
        ),
        "Release": (
            sf.Release,
            {"counter": thing("release").counter, "provenance": thing("release").provenance},
        ),
        "Table": (
            sf.Table,
            {"domain": table.domain, "columns": table.columns, "provenance": None, "notes": ()},
        ),
    }
    # A classifier checks what it was told when it is fitted, as scikit-learn's do.
    for name in ("DecisionTree", "NaiveBayes", "Reconstructed"):
        make, given = whole[name]
        whole[name] = (fitting(make), given)
    return whole


def fitting(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: make(**given).fit(thing("exact"))


def methods(folder: Path) -> dict[str, Call]:
    """The methods of the public classes that take arguments; mechanisms have their own."""
    table, model, estimate = thing("table"), thing("model"), thing("estimate")
    domain, release, exact = thing("domain"), thing("release"), thing("exact")
    guarantee, age = thing("guarantee"), thing("numbers")
    bins, sex, shop = age.bins(), domain["sex"], thing("shop")["items"]
    answer, cells = sf.Answer(1.0, 1.0), [exact.cells("sex")]
    ledger = sf.Ledger.create(folder / "made.ledger", guarantee)
    words = pa.array(["f", "m"])
    weights = np.ones((2, 2))
    drawn = {"key": "k", "release": "r", "draw": lambda: 1}
    made: dict[str, Call] = {
        "Answer.clip": (answer.clip, {"low": 0.0, "high": 2.0}),
        "Answer.interval": (answer.interval, {"level": 0.9}),
        "Answer.plot": (answer.plot, {}),
        "Answer.view": (answer.view, {"level": 0.9}),
        "Answer.scaled": (answer.scaled, {"factor": 2.0}),
        "Answer.to_arrow": (answer.to_arrow, {"level": 0.9}),
        "Answer.to_dict": (answer.to_dict, {"level": 0.9}),
        "Domain.__contains__": (domain.__contains__, {"name": "sex"}),
        "Domain.__getitem__": (domain.__getitem__, {"name": "sex"}),
        "Domain.axis": (domain.axis, {"name": "sex"}),
        "Domain.axis_named": (domain.axis_named, {"name": "sex"}),
        "Domain.cells_of": (domain.cells_of, {"name": "sex"}),
        "Domain.from_dict": (sf.Domain.from_dict, {"data": domain.to_dict()}),
        "Domain.from_toml": (
            sf.Domain.from_toml,
            {"text": domain.to_toml(), "where": "schema"},
        ),
        "Domain.index": (domain.index, {"name": "sex"}),
        "Domain.load": (sf.Domain.load, {"path": folder / "s.toml"}),
        "Domain.one_hot": (domain.one_hot, {"name": "items"}),
        "Domain.plot": (domain.plot, {"most": 3}),
        "Domain.project": (domain.project, {"names": ["sex"]}),
        "Domain.save": (domain.save, {"path": folder / "again.toml"}),
        "Estimate.cell_covariance": (
            estimate.cell_covariance,
            {"cells": np.array([0, 1]), "sampling": False},
        ),
        "Estimate.coarsen": (estimate.coarsen, {"cells": estimate.cells}),
        "Estimate.covariance_matrix": (
            estimate.covariance_matrix,
            {"weights": np.ones((2, 2, 1))},
        ),
        "Estimate.dot": (estimate.dot, {"weights": weights, "sampling": False}),
        "Estimate.indicator": (estimate.indicator, {"sex": "f"}),
        "Estimate.likelihood": (estimate.likelihood, {"tolerance": 1e-6, "steps": 10}),
        "Estimate.plot": (estimate.plot, {"truth": None}),
        "Estimate.ratio": (
            estimate.ratio,
            {"numerator": weights, "denominator": weights, "sampling": False},
        ),
        "Estimate.share": (estimate.share, {"sampling": False, "sex": "f"}),
        "Estimate.variances": (estimate.variances, {"weights": np.ones((2, 2, 1))}),
        "Estimate.where": (estimate.where, {"sampling": False, "sex": "f"}),
        "Guarantee.allows": (guarantee.allows, {"other": guarantee}),
        "Guarantee.from_breach": (sf.Guarantee.from_breach, {"rho1": 0.05, "rho2": 0.5}),
        "Guarantee.from_epsilon": (sf.Guarantee.from_epsilon, {"epsilon": 2.0}),
        "Guarantee.least_posterior": (guarantee.least_posterior, {"prior": 0.1}),
        "Guarantee.repeated": (guarantee.repeated, {"copies": 2}),
        "Guarantee.stated": (
            sf.Guarantee.stated,
            {"gamma": 19, "epsilon": None, "rho1": None, "rho2": None},
        ),
        "Guarantee.worst_posterior": (guarantee.worst_posterior, {"prior": 0.1}),
        "Guarantee.posterior_words": (guarantee.posterior_words, {"prior": 0.1}),
        "Guarantee.compose": (lambda other: guarantee.compose(other), {"other": guarantee}),
        "Items.item_cells": (shop.item_cells, {"item": "tea"}),
        "Ledger": (sf.Ledger, {"path": folder / "made.ledger", "budget": None}),
        "Ledger.answer": (
            ledger.answer,
            {**drawn, "guarantee": sf.Guarantee(1.01), "attributes": ["a"], "budget": None},
        ),
        "Ledger.charge": (
            ledger.charge,
            {"key": "k", "release": "c", "guarantee": sf.Guarantee(1.01), "attributes": ["b"]},
        ),
        "Ledger.create": (
            fresh_ledger(folder),
            {"path": folder / "new.ledger", "budget": guarantee},
        ),
        "Ledger.ensure": (sf.Ledger.ensure, {"path": folder / "made.ledger"}),
        "Ledger.deal": (ledger.deal, drawn),
        "Ledger.left": (ledger.left, {"key": "k"}),
        "Ledger.mark_sent": (ledger.mark_sent, {"key": "k", "release": "r"}),
        "Ledger.forget": (ledger.forget, {"key": "k", "release": "r"}),
        "Ledger.of": (ledger.of, {"key": "k"}),
        "Ledger.rename": (ledger.rename, {"name": str}),
        "Ledger.take_in": (ledger.take_in, {"other": ledger}),
        "Ledger.pending": (ledger.pending, {"key": None}),
        "Ledger.spent": (ledger.spent, {"key": "k"}),
        "Model.marginal_of": (model.marginal_of, {"axes": (0, 1)}),
        "Model.reaches": (model.reaches, {"axes": (0, 1)}),
        "Model.supposed": (model.supposed, {"axes": (0, 1)}),
        "Model.tell": (model.tell, {"words": "reading", "share": 0.5}),
        "NaiveBayes.plot": (thing("bayes").plot, {"most": 2, "axes": None}),
        "NaiveBayes.lifts": (thing("bayes").lifts, {"place": 1, "most": 2}),
        "NaiveBayes.telling": (thing("bayes").telling, {"place": 1, "most": 2}),
        "NaiveBayes.text": (thing("bayes").text, {"most": 2}),
        "Numeric.first_code": (age.first_code, {"cut": 30}),
        "Numeric.numbers": (age.numbers, {"codes": np.array([1, 2])}),
        "Release.of": (sf.Release.of, {"table": release.table}),
        "Release.save": (release.save, {"path": folder / "again.parquet", "force": True}),
        "Table.column": (table.column, {"name": "sex"}),
        "Table.from_arrow": (
            sf.Table.from_arrow,
            {"data": pa.table(PEOPLE), "domain": domain},
        ),
        "Table.recode": (table.recode, {"domain": domain}),
        "Table.slice": (table.slice, {"start": 0, "stop": 3}),
        "Table.take": (table.take, {"rows": np.array([0, 1])}),
        "DecisionTree.plot": (thing("tree").plot, {}),
    }
    for name, source in {"Exact": exact, "Release": release, "Model": model}.items():
        made |= {
            f"{name}.cells": (source.cells, {"name": "sex"}),
            f"{name}.condensed": (source.condensed, {"columns": ["sex"]}),
            f"{name}.marginal": (source.marginal, {"columns": ["sex"]}),
            f"{name}.marginals": (source.marginals, {"questions": [["sex"]]}),
            f"{name}.plot": (source.plot, {"columns": ["sex"], "truth": None}),
            f"{name}.sums": (source.sums, {"name": "sex"}),
        }
    for name, source in {"Exact": exact, "Release": release}.items():
        made |= {
            f"{name}.observe": (source.observe, {"cells": cells}),
            f"{name}.tallied": (source.tallied, {"tallies": [source.observe(cells).tally]}),
            f"{name}.moments": (
                numeric(source).moments,
                {"cells": [thing("numbers").cells()], "axis": 0},
            ),
        }
    for name, attribute, array in (
        ("Category", sex, words),
        ("Bins", bins, pa.array([1.0, 40.0])),
        ("Numeric", age, pa.array([1.0, 40.0])),
        ("Items", shop, pa.array([["tea"], ["jam"]])),
    ):
        made |= {
            f"{name}.cells_by_values": (
                by_values(attribute),
                {"values": [attribute.labels[0]], "rest": "other"},
            ),
            f"{name}.code": (attribute.code, {"label": attribute.labels[0]}),
            f"{name}.decode": (attribute.decode, {"codes": attribute.encode(array)}),
            f"{name}.encode": (attribute.encode, {"array": array, "first_row": 1}),
        }
    for name, attribute in {"Bins": bins, "Numeric": age}.items():
        made[f"{name}.cells_by_cuts"] = (attribute.cells_by_cuts, {"cuts": [30]})
    quality = thing("tree").quality(PEOPLE)
    made["Quality.agreement"] = (quality.agreement, {"other": quality})
    for name in ("DecisionTree", "NaiveBayes", "Reconstructed"):
        fitted = getattr(sf, name)("ill").fit(exact)
        made |= {
            f"{name}.fit": (
                getattr(sf, name)("ill").fit,
                {"source": exact, "y": None, "progress": None},
            ),
            f"{name}.get_params": (fitted.get_params, {"deep": True}),
            f"{name}.set_params": (changing(name), {"most_cells": 4}),
            f"{name}.predict": (fitted.predict, {"data": PEOPLE}),
            f"{name}.predict_proba": (fitted.predict_proba, {"data": PEOPLE}),
            f"{name}.quality": (fitted.quality, {"data": PEOPLE, "y": None}),
            f"{name}.score": (fitted.score, {"data": PEOPLE, "y": None}),
        }
    return made


def changing(name: str) -> Callable[..., Any]:
    return lambda **given: getattr(sf, name)("ill").set_params(**given).fit(thing("exact"))


def by_values(attribute: Any) -> Callable[..., Any]:
    return lambda values, rest: attribute.cells_by_values(values, rest=rest)


def fresh_ledger(folder: Path) -> Callable[..., Any]:
    """Creating a ledger, where there was none yet."""

    def create(**given: Any) -> Any:
        (folder / "new.ledger").unlink(missing_ok=True)
        return sf.Ledger.create(**given)

    return create


@functools.cache
def _ages(kind: type) -> Any:
    domain = sf.Domain((thing("numbers"), thing("domain")["sex"]))
    people = sf.read({"age": list(range(100)) * 2, "sex": PEOPLE["sex"]}, domain)
    if kind is sf.Exact:
        return sf.Exact(people)
    return sf.perturb(people, sf.Retention(domain, 0.5), sf.seeded(1))


def numeric(source: Any) -> Any:
    """A source of the same kind that holds a number."""
    return _ages(type(source))


def of_mechanisms(folder: Path) -> dict[str, Call]:
    """What makes each public mechanism, and what it can be asked."""
    made: dict[str, Call] = {}
    rng, guarantee = sf.seeded(1), thing("guarantee")
    np.savetxt(folder / "matrix.csv", [[0.8, 0.2], [0.2, 0.8]], delimiter=",")
    for name, (kind, given) in mechanisms().items():
        mechanism, domain = kind(**given), given["domain"]
        table = thing("baskets") if domain.baskets else sf.read(PEOPLE, thing("domain"))
        columns = tuple(table.column(each) for each in domain.names)
        cells = [domain.cells_of(axis.name) for axis in domain.axes]
        shape = tuple(part.size for part in cells)
        made |= {
            name: (kind, given),
            f"{name}.private_channel_over": (mechanism.private_channel_over, {"axes": [0]}),
            f"{name}.from_options": (
                kind.from_options,
                {
                    "domain": domain,
                    "given": {key: word for key, word in given.items() if key != "domain"},
                    "supports": None,
                },
            ),
            f"{name}.from_parameters": (
                kind.from_parameters,
                {"domain": domain, "parameters": mechanism.parameters()},
            ),
            f"{name}.likelihood": (
                mechanism.likelihood,
                {
                    "reports": mechanism.perturb(columns, rng),
                    "cells": cells,
                    "within": None,
                    "shares": None,
                },
            ),
            f"{name}.private_likelihood": (
                mechanism.private_likelihood,
                {
                    "reports": mechanism.perturb(columns, rng),
                    "cells": cells,
                    "within": None,
                    "margins": [np.full(size, 1 / size) for size in shape],
                },
            ),
            f"{name}.most_likely": (
                mechanism.most_likely,
                {"reports": mechanism.randomise(columns, rng)},
            ),
            f"{name}.observe": (mechanism.observe, {"cells": cells}),
            f"{name}.observe_private": (mechanism.observe_private, {"cells": cells}),
            f"{name}.perturb": (mechanism.perturb, {"columns": columns, "rng": rng}),
            f"{name}.randomise": (mechanism.randomise, {"columns": columns, "rng": rng}),
            f"{name}.promising": (kind.promising, {"guarantee": guarantee, "domain": domain}),
        }
        asked = {"cells": cells, "weights": np.ones(shape), "shares": np.full(shape, 1 / 8)}
        made[f"{name}.predicted_variance"] = (mechanism.predicted_variance, asked)
        fitted = asked | {"people": 100.0, "order": 2}
        made[f"{name}.modelled_variance"] = (mechanism.modelled_variance, fitted)
        if hasattr(kind, "item_channel"):
            made[f"{name}.item_channel"] = (mechanism.item_channel, {"items": [0]})
    shop, sex = thing("shop"), thing("domain").project(["sex"])
    flips = {"fp": 0.9, "nfp": 0.8, "min_support": 0.2}
    made["FrequencyFlip.from_options"][1].update(given=flips, supports=lambda _: [0.5, 0.1, 0.1])
    made["UserMatrix.from_options"][1]["given"] = {"matrix": str(folder / "matrix.csv")}
    made["Combined.promising"][1]["groups"] = None
    made["Questionnaire.promising"][1].update(questions=None, target=None)
    made["RandomizedGamma.promising"][1]["spread"] = None
    made["Retention.promising"][1]["replace"] = "uniform"
    return made | {
        "Combined.of": (lambda part: sf.Combined.of(part), {"part": sf.Retention(sex, 0.5)}),
        "CutAndPaste.sizes": (
            sf.CutAndPaste(shop, 2, 0.3).sizes,
            {"length": 2, "basket_size": 2},
        ),
        "FrequencyFlip.from_supports": (
            sf.FrequencyFlip.from_supports,
            {
                "domain": shop,
                "supports": [0.5, 0.1, 0.1],
                "fp": 0.9,
                "nfp": 0.8,
                "min_support": 0.2,
            },
        ),
        "RandomizedGamma.posterior_range": (
            sf.RandomizedGamma(thing("domain"), 19, 0.3).posterior_range,
            {"prior": 0.1},
        ),
        "UserMatrix.from_file": (
            sf.UserMatrix.from_file,
            {"path": folder / "matrix.csv", "domain": sex},
        ),
    }


def of_results(folder: Path) -> dict[str, Call]:
    """What can be asked of results."""
    found, rules, answer = (results()[name] for name in ("Itemsets", "Rules", "CubeResult"))
    plan, offer, tree = (results()[name] for name in ("Plan", "Candidate", "Tree"))
    typed = {"data": "people.csv", "schema": "s.toml", "items": None}
    within = {"within": 0.1, "level": 0.9}
    made: dict[str, Call] = {
        "CubeResult.labels_of": (answer.labels_of, {"row": answer.rows[0]}),
        "CubeResult.rows_guaranteed": (answer.rows_guaranteed, within),
        "CubeResult.rows_needed": (answer.rows_needed, within),
        "Identification.plot": (results()["Identification"].plot, {"most": 3}),
        "Itemsets.named": (found.named, {"names": {"tea": "green tea"}}),
        "Itemsets.order": (found.order, {"by": "support"}),
        "Itemsets.plot": (found.plot, {"truth": None, "top": 3}),
        "Itemsets.view": (found.view, {"by": "support", "most": 3}),
        **{
            f"Itemsets.{name}": (getattr(found, name), {"by": "support"})
            for name in ("to_arrow", "to_csv", "to_dicts", "to_json")
        },
        "Itemsets.top": (found.top, {"number": 2}),
        "Itemsets.where": (found.where, {"mask": np.ones(len(found), bool)}),
        "Candidate.calls": (
            offer.calls,
            {"promise": thing("guarantee"), "data": "people", "schema": "schema"},
        ),
        "Candidate.command": (
            offer.command,
            {"promise": thing("guarantee"), **typed, "output": "out.parquet"},
        ),
        "Candidate.to_dict": (offer.to_dict, {"rho1": 0.05, "command": None}),
        "Plan.commands": (plan.commands, typed),
        "Plan.to_dict": (plan.to_dict, typed),
        "Rules.plot": (rules.plot, {"top": 3}),
        "Rules.view": (rules.view, {"by": "lift", "most": 3}),
        "Rules.strongest": (rules.strongest, {"metric": "lift"}),
        "Rules.take": (rules.take, {"rows": np.array([0])}),
        "Tree.plot": (tree.plot, {}),
        "Tree.shares": (tree.shares, {"cells": [np.zeros(2, int) for _ in tree.used]}),
    }
    for name in ("to_arrow", "to_dict", "to_pandas", "to_polars", "view"):
        made[f"CubeResult.{name}"] = (getattr(answer, name), {"level": 0.9})
    for name, result in results().items():
        made.setdefault(f"{name}.plot", (getattr(result, "plot", lambda: None), {}))
        if name.endswith("Release"):
            where = {"path": folder / f"{name}.parquet", "force": True}
            made[f"{name}.save"] = (result.save, where)
    return made


def public_callables() -> Iterator[str]:
    """Every public function and class, and every method of those and of results, that takes
    arguments.
    """
    for name in (*sf.__all__, *results()):
        found = of_name(name)
        if inspect.isclass(found):
            if name in sf.__all__:
                yield name
            for method, value in inspect.getmembers(found, callable):
                if not method.startswith("_") and takes_arguments(value):
                    yield f"{name}.{method}"
        elif callable(found) and takes_arguments(found):
            yield name


def takes_arguments(function: Any) -> bool:
    try:
        return bool(set(inspect.signature(function).parameters) - {"self"})
    except ValueError:  # of built-in exceptions
        return False


def fault(function: Callable[..., Any], given: dict[str, Any]) -> str | None:
    """What is wrong with how a call went; None for a result, or an error of ours in one line."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(**given)
    except sf.SfumatoError as error:
        told = str(error)
        return None if told and "\n" not in told and len(told) <= LONGEST else f"said: {told[:80]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]!r}"
    return None


def wrong_calls(
    named: dict[str, Call], tried: int = TRIED
) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Every call with one argument that will not do, for each some of the wrong values."""
    for name, (function, given) in named.items():
        for parameter in given:
            place = f"{name}({parameter}"
            for word in random.Random(place).sample(list(WRONG), tried):
                inner = name.endswith(INNER) and word in HELD
                if parameter not in FREE and not inner:
                    yield f"{place}={word})", function, {**given, parameter: WRONG[word]}


def of_name(name: str) -> Any:
    first, *rest = name.split(".")
    start = type(results()[first]) if first in results() else getattr(sf, first)
    return functools.reduce(getattr, rest, start)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return calls(tmp_path_factory.mktemp("arguments"))


def test_every_public_callable_is_called(named: dict[str, Call]) -> None:
    assert [each for each in public_callables() if each not in {*named, *NOT_CALLED}] == []


def test_every_call_names_all_arguments(named: dict[str, Call]) -> None:
    """So that each of them is tried."""
    for name in public_callables():
        if name in named:
            taken = inspect.signature(of_name(name)).parameters.values()
            plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            asked = {each.name for each in taken if each.kind in plain} - {"self", *FREE}
            assert asked <= set(named[name][1]), name


def test_every_annotation_can_be_read() -> None:
    for name in public_callables():
        if name not in NOT_CALLED:
            found = of_name(name)
            get_type_hints(inspect.unwrap(found.__init__ if inspect.isclass(found) else found))


def test_the_calls_are_right_as_they_stand(named: dict[str, Call]) -> None:
    refused = {}
    for name, (function, given) in named.items():
        try:
            function(**given)
        except (NotLumpableError, PrivacyError, Unanswerable):  # not told by every mechanism
            assert name.split(".")[0] in mechanisms(), name
        except Exception as error:
            refused[name] = error
        plt.close("all")
    assert refused == {}


def test_a_wrong_argument_is_told_in_one_line_by_everything_public(
    named: dict[str, Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    faults = {}
    for label, function, given in wrong_calls(named):
        found = fault(function, given)
        if found:
            faults[label] = found
        plt.close("all")
    assert faults == {}


def test_no_record_stands_in_a_message(
    named: dict[str, Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A frame in the wrong place was printed, its first and last records with it. Where data are
    read by a schema, the value that it does not list is told with its row.
    """
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": [SECRET, "f"], "ill": ["no", SECRET]})
    held, places = (frame, sf.read(frame), frame.to_dict("list")), {}
    for place, (function, given) in named.items():
        for parameter, wrong in product({*given} - {*FREE}, held):
            told = told_of(function, {**given, parameter: wrong})
            if SECRET in told and not told.startswith("row "):
                places[f"{place}({parameter}={type(wrong).__name__})"] = told
        plt.close("all")
    assert places == {}


def told_of(function: Callable[..., Any], given: dict[str, Any]) -> str:
    """What the refusal of these arguments says, if they are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**given)
    except Exception as error:
        return str(error)
    return ""


def test_too_many_or_too_few_arguments_are_told_in_our_words() -> None:
    for call, expected in (
        (lambda: sf.identify(PEOPLE, "sex"), "identify takes data without a name, not 2"),
        (lambda: sf.plan(PEOPLE, 100, 19), "name the others: gamma=, epsilon=,"),
        (lambda: sf.query(PEOPLE), "query needs sql, which was not given"),
        (lambda: sf.seeded(), "seeded needs seed, which was not given"),
        (lambda: sf.read(PEOPLE, None, 3), "leave the others out"),
        (lambda: sf.Domain.load(), "load needs path, which was not given"),
    ):
        with pytest.raises(sf.SfumatoError, match=expected):
            call()


def test_an_exception_from_inside_is_a_fault() -> None:
    """The judge itself: what it must find."""

    def fall(value: Any) -> Any:
        if value == "lines":
            raise sf.SfumatoError("a long line " * 100)
        return len(value)

    assert fault(fall, {"value": "word"}) is None
    assert fault(fall, {"value": 3}) == "TypeError: \"object of type 'int' has no len()\""
    assert str(fault(fall, {"value": "lines"})).startswith("said: a long line")


def test_kinds_that_other_libraries_make_will_do() -> None:
    """What stands for a number, a list or a path elsewhere is one here."""
    assert sf.Numeric("age", np.int64(0), np.float32(99)).max == 99
    assert sf.Guarantee(Fraction(19)) == sf.Guarantee(np.float64(19))
    assert sf.Exact(sf.read(PEOPLE)).marginal(np.array(["sex"])).names == ("sex",)
    assert sf.Exact(sf.read(PEOPLE)).marginal(pd.Index(["sex"])).names == ("sex",)
    assert thing("domain").project(name for name in ("sex", "ill")).names == ("sex", "ill")


REFUSED = {
    "no schema file 's.toml'": lambda: sf.read(PEOPLE, "s.toml"),
    "stderr='small' will not do; give a number": lambda: sf.Answer(1.0, "small"),
    "right=a DataFrame of 2 × 1 will not do; give a Release (what sf.perturb and sf.open return)": (
        lambda: sf.join(joined("sex"), WRONG["a frame"], "key")
    ),
    "rng=3 will not do; give a Keystream (sf.secure() for secure noise, sf.seeded(1) for an "
    "experiment)": lambda: sf.GammaDiagonal(thing("domain"), 19).perturb(thing("table").columns, 3),
    "cells=['sex'] will not do; give a list of Cells": (lambda: thing("release").observe(["sex"])),
    "others=19 will not do; give a Guarantee (as in sf.Guarantee(19))": (
        lambda: sf.Guarantee(19).compose(sf.Guarantee(2), 19)
    ),
    "GammaDiagonal has no option 'gama' (domain, gamma); did you mean 'gamma'?": (
        lambda: sf.GammaDiagonal(thing("domain"), gama=19)
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_was_wrong_what_was_found_and_what_would_do(words: str) -> None:
    with pytest.raises(sf.SfumatoError) as told:
        REFUSED[words]()
    assert str(told.value) == words
