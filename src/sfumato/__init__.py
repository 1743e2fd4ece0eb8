"""Sfumato: perturb each record before anyone sees it, and reconstruct the crowd's counts with their
error bars.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.lazy import loading

__version__ = "0.2.0"

if TYPE_CHECKING:
    from sfumato.api import audit as audit
    from sfumato.api import classify as classify
    from sfumato.api import compare as compare
    from sfumato.api import fit as fit
    from sfumato.api import mine as mine
    from sfumato.api import perturb as perturb
    from sfumato.api import plan as plan
    from sfumato.api import query as query
    from sfumato.api import reblur as reblur
    from sfumato.api import regress as regress
    from sfumato.audit import audit_release as audit_release
    from sfumato.domain import Bins as Bins
    from sfumato.domain import Category as Category
    from sfumato.domain import Domain as Domain
    from sfumato.domain import Items as Items
    from sfumato.domain import Numeric as Numeric
    from sfumato.engines import combine as combine
    from sfumato.engines import join as join
    from sfumato.engines import open_source as open_source
    from sfumato.engines import save_release as save_release
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.estimation.answer import Answer as Answer
    from sfumato.estimation.estimate import Estimate as Estimate
    from sfumato.evaluate import itemset_errors as itemset_errors
    from sfumato.mechanisms.bitflip import BitFlip as BitFlip
    from sfumato.mechanisms.bitflip import FrequencyFlip as FrequencyFlip
    from sfumato.mechanisms.combined import Combined as Combined
    from sfumato.mechanisms.cut_and_paste import CutAndPaste as CutAndPaste
    from sfumato.mechanisms.gamma_diagonal import GammaDiagonal as GammaDiagonal
    from sfumato.mechanisms.gamma_diagonal import RandomizedGamma as RandomizedGamma
    from sfumato.mechanisms.joint import HadamardResponse as HadamardResponse
    from sfumato.mechanisms.joint import SubsetSelection as SubsetSelection
    from sfumato.mechanisms.joint import UnaryEncoding as UnaryEncoding
    from sfumato.mechanisms.matrix import UserMatrix as UserMatrix
    from sfumato.mechanisms.questionnaire import Questionnaire as Questionnaire
    from sfumato.mechanisms.retention import Permuting as Permuting
    from sfumato.mechanisms.retention import Retention as Retention
    from sfumato.mine.bayes import NaiveBayes as NaiveBayes
    from sfumato.mine.itemsets import frequent_itemsets as frequent_itemsets
    from sfumato.mine.reconstructed import Reconstructed as Reconstructed
    from sfumato.mine.rules import association_rules as association_rules
    from sfumato.mine.tree import DecisionTree as DecisionTree
    from sfumato.model.fitted import fit_release as fit_release
    from sfumato.model.model import Model as Model
    from sfumato.model.model_file import open_model as open_model
    from sfumato.model.model_file import save_model as save_model
    from sfumato.model.sampling import sample as sample
    from sfumato.plan import plan_release as plan_release
    from sfumato.privacy.guarantee import Guarantee as Guarantee
    from sfumato.privacy.ledger import Ledger as Ledger
    from sfumato.publish.hide import hide as hide
    from sfumato.publish.identify import identify as identify
    from sfumato.publish.pram import pram as pram
    from sfumato.publish.restriction import read_restrictions as read_restrictions
    from sfumato.publish.suppress import suppress as suppress
    from sfumato.publish.swap import swap as swap
    from sfumato.randomness import secure as secure
    from sfumato.randomness import seeded as seeded
    from sfumato.release import Exact as Exact
    from sfumato.release import Release as Release
    from sfumato.release import open as open
    from sfumato.table import Table as Table
    from sfumato.table import propose_schema as propose_schema
    from sfumato.table import read as read

# Module -> its public names. Loading on first use keeps `sfumato --help` free of everything it
# does not need.
_HOMES = {
    "api": "audit classify compare fit mine perturb plan query reblur regress",
    "audit": "audit_release",
    "domain": "Bins Category Domain Items Numeric",
    "engines": "combine join open_source save_release",
    "errors": "SfumatoError",
    "estimation.answer": "Answer",
    "estimation.estimate": "Estimate",
    "evaluate": "itemset_errors",
    "mechanisms.bitflip": "BitFlip FrequencyFlip",
    "mechanisms.combined": "Combined",
    "mechanisms.cut_and_paste": "CutAndPaste",
    "mechanisms.gamma_diagonal": "GammaDiagonal RandomizedGamma",
    "mechanisms.joint": "HadamardResponse SubsetSelection UnaryEncoding",
    "mechanisms.matrix": "UserMatrix",
    "mechanisms.questionnaire": "Questionnaire",
    "mechanisms.retention": "Permuting Retention",
    "mine.bayes": "NaiveBayes",
    "mine.itemsets": "frequent_itemsets",
    "mine.reconstructed": "Reconstructed",
    "mine.rules": "association_rules",
    "mine.tree": "DecisionTree",
    "model.fitted": "fit_release",
    "model.model": "Model",
    "model.model_file": "open_model save_model",
    "model.sampling": "sample",
    "plan": "plan_release",
    "privacy.guarantee": "Guarantee",
    "privacy.ledger": "Ledger",
    "publish.hide": "hide",
    "publish.identify": "identify",
    "publish.pram": "pram",
    "publish.restriction": "read_restrictions",
    "publish.suppress": "suppress",
    "publish.swap": "swap",
    "randomness": "secure seeded",
    "release": "Exact Release open",
    "table": "Table propose_schema read",
}
_EXPORTS = {name: f"{home}:{name}" for home, names in _HOMES.items() for name in names.split()}

# What version 0.1.0 called it -> what it is called now.
_FORMER = {"Swapping": "Permuting"}
# What version 0.2.0 had that is not needed any more -> where it is still, and what to do instead.
_NEEDLESS = {
    "Binning": ("publish.former", 'write bins={"age": "frequency:5"}'),
    "Microdata": ("publish.former", "identify, swap, suppress and pram take records as they are"),
}

__all__ = ["__version__", *_EXPORTS]
_load = loading(__name__, _EXPORTS)

# These packages share their name with a command. The import system binds the name of a package to
# its parent once, when it is first loaded: that is done here (they load nothing themselves), and
# the name is free again for the function. `from sfumato.plan import …` finds the package as before.
for _package in ("audit", "mine", "plan"):
    import_module(f"sfumato.{_package}")
    del globals()[_package]


def __getattr__(name: str) -> Any:
    """The public object of that name, imported from its module the first time it is asked for."""
    if name == "collect":
        return import_module("sfumato.collect")
    if name in _FORMER:
        warnings.warn(
            f"sfumato.{name} is now sfumato.{_FORMER[name]}", DeprecationWarning, stacklevel=2
        )
        return globals().get(_FORMER[name]) or __getattr__(_FORMER[name])
    if name in _NEEDLESS:
        module, instead = _NEEDLESS[name]
        warnings.warn(f"sfumato.{name} goes: {instead}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(f"sfumato.{module}"), name)
    return _load(name)


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted(__all__)
