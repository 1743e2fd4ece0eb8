"""CampaignFile: a campaign as a TOML file states it, read and checked; an error names the line."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.collect.campaign import (
    LEAST_SHOWN,
    LEAST_STEP,
    NO_ANSWER,
    Campaign,
    DashboardRules,
    Wording,
    Words,
)
from sfumato.collect.canonical import differences
from sfumato.collect.choosing import ROUNDS_BY, best_mechanism
from sfumato.collect.lines import TomlLines
from sfumato.domain import Attribute, Bins, Category, Domain, Items, Numeric
from sfumato.errors import (
    CampaignError,
    PrivacyError,
    SchemaError,
    SfumatoError,
    listing,
    near_miss,
)
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.parameters import parsed
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.account import ROUNDING, left_words
from sfumato.privacy.guarantee import Guarantee
from sfumato.untrusted import MOST_NUMBER, MOST_TOML_BYTES, MOST_WHOLE, check_toml, read_text

ESTIMATES = ("plain", "bounded")
KEYS: dict[str, tuple[str, ...]] = {
    "": (
        "name",
        "title",
        "schema",
        "attribute",
        "opens",
        "closes",
        "promise",
        "mechanism",
        "budget",
        "question",
        "text",
        "dashboard",
        "rounds",
    ),
    "promise": ("gamma", "epsilon", "rho1", "rho2", "sizes"),
    "budget": ("epsilon", "round"),
    "question": ("text", "values", "decline"),
    "text": ("purpose", "consent", "contact"),
    "dashboard": ("public", "least", "step", "estimate"),
    "rounds": ("people",),
}
_NAME = re.compile(r"[a-z0-9-]{1,64}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
# A campaign lives at /NAME, so these are taken.
TAKEN = ("v1", "static", "healthz", "readyz", "metrics", "favicon.ico")

LEAST_PEOPLE = 10  # that can be asked in rounds

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Text:
    """A TOML text and what it says, with the lines of its keys."""

    where: str
    data: Mapping[str, Any]
    lines: TomlLines
    folder: Path = Path()

    @classmethod
    def parse(cls, text: str, path: Path, where: str) -> Text:
        try:
            check_toml(text, where)
            return cls(where, tomllib.loads(text), TomlLines.of(text), path.parent)
        except SchemaError as error:
            raise CampaignError(error.message) from None
        except tomllib.TOMLDecodeError as error:
            place = re.search(r"line (\d+)", str(error))
            line = f", line {place[1]}" if place else ""
            reason = re.sub(r"\s*\(at .*\)$", "", str(error))
            raise CampaignError(f"{where}{line}: not valid TOML: {reason}") from None
        except RecursionError:
            raise CampaignError(f"{where}: nested too deep") from None
        except ValueError as error:  # a day that no calendar has
            raise CampaignError(f"{where}: not valid TOML: {error}") from None

    def error(self, key: Key, message: str, hint: str | None = None) -> CampaignError:
        """The error that points at the line of a key."""
        line = self.lines.find(key)
        place = self.where if line is None else f"{self.where}, line {line}"
        return CampaignError(f"{place}: {message}", hint=hint, line=line)

    def get(self, key: Key, kind: type | tuple[type, ...], wanted: str) -> Any:
        """The value of a key, None where it is not given; of another type it is an error."""
        found: Any = self.data
        for part in key:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            return None
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
            raise self.error(key, f"{key[-1]} = {_shown(found)} should be {wanted}")
        return found

    def table(self, *key: str, known: tuple[str, ...] | None = None) -> Mapping[str, Any]:
        """A table, empty where it is not given; a key that it does not know is an error."""
        found = self.get(key, dict, f"a table [{'.'.join(key)}]") if key else self.data
        found = {} if found is None else found
        for name in found if known is not None else ():
            if known is not None and name not in known:
                raise self.error(
                    (*key, name),
                    f"{'.'.join(key) or 'a campaign'} does not know the key '{name}' "
                    f"({listing(known, most=12)})",
                    near_miss(name, known),
                )
        return dict(found)

    def words(self, *key: str) -> Words:
        """A text in each of its languages."""
        found = self.get(key, dict, 'a text for each language, as in { en = "…" }')
        for language, text in (found or {}).items():
            if not _LANGUAGE.fullmatch(language):
                raise self.error((*key, language), f"'{language}' is no language, such as en or de")
            if not isinstance(text, str) or not text.strip():
                raise self.error((*key, language), f"the text for '{language}' is no text")
        return dict(found or {})

    @contextmanager
    def at(self, *key: str | int) -> Any:
        """Errors inside the block point at the line of this key."""
        try:
            yield
        except CampaignError:
            raise
        except SfumatoError as error:
            raise self.error(key, error.message, error.hint) from None


@dataclass(frozen=True)
class CampaignFile:
    """A campaign, and the files that state it."""

    campaign: Campaign
    text: Text
    schema: Text  # the same text where the attributes stand in the campaign itself

    @classmethod
    def load(cls, path: str | Path) -> CampaignFile:
        """The campaign in a TOML file."""
        path = Path(path)
        text = Text.parse(
            read_text(path, f"campaign file '{path}'", MOST_TOML_BYTES), path, path.name
        )
        text.table(known=KEYS[""])
        schema = text
        place = text.get(("schema",), str, "the name of a schema file")
        if (place is None) == ("attribute" not in text.data):
            raise text.error(
                ("schema",),
                "a campaign names a schema or has [[attribute]] tables; found "
                + ("neither" if place is None else "both"),
                hint='as in schema = "survey.toml"',
            )
        if place is not None:
            with text.at("schema"):
                beside = path.parent / place
                words = read_text(beside, f"schema '{beside}'", MOST_TOML_BYTES)
                schema = Text.parse(words, path, place)
        return cls(_campaign(text, schema), text, schema)

    def changed(self, frozen: Mapping[str, Any], reports: int) -> CampaignError:
        """The error of a file that no longer says what people have answered."""
        key, before, after = next(differences(frozen, self.campaign.frozen))
        told = (
            f"'{self.campaign.name}' has {reports:,} reports and cannot be changed: "
            f"{'.'.join(map(str, key[1:])) or 'round'} was {_shown(before)} and is now "
            f"{_shown(after)}"
        )
        hint = "undo the change, raise [budget] round to ask everyone again, or choose a new name"
        if key[0] == "domain":
            text = self.schema if key[1] == "attribute" else self.text
            return text.error(key[1:], told, hint)
        path: Key = ("budget", "round") if key[0] == "round" else ("mechanism",)
        if self.text.lines.find(path) is None:
            path = ("promise",)
        return self.text.error(path, told, hint)


def _campaign(text: Text, schema: Text) -> Campaign:
    domain = _domain(text, schema)
    promise = _promise(text)
    opens, closes = _day(text, "opens"), _day(text, "closes")
    if opens is not None and closes is not None and closes < opens:
        raise text.error(("closes",), f"closes = {closes} is before opens = {opens}")
    with text.at("mechanism" if "mechanism" in text.data else "promise"):
        mechanism = _mechanism(text, domain, promise)
        program = mechanism.program()
    sizes = _sizes(text, domain)
    try:
        program.guarantee(domain, sizes)
    except PrivacyError as error:
        name = f'sizes = ["{error.facts["column"]}"]'
        raise text.error(("promise",), error.message, f"say so by {name} under [promise]") from None
    with text.at("attribute" if "attribute" in text.data else "schema"):
        return Campaign(
            _name(text),
            _needed(text, text.words("title"), "title"),
            mechanism,
            promise,
            _questions(text, domain),
            {part: text.words("text", part) for part in ("purpose", "consent")},
            text.get(("text", "contact"), str, "a text"),
            opens,
            closes,
            _positive(text, ("budget", "epsilon")),
            _whole(text, ("budget", "round"), 1, 1),
            _dashboard(text, mechanism),
            _announced(text, mechanism, promise),
            sizes,
        )


def _needed(text: Text, found: Any, key: str) -> Any:
    if not found:
        raise text.error((key,), f"a campaign needs a {key}")
    return found


def _name(text: Text) -> str:
    name = _needed(text, text.get(("name",), str, "a text"), "name")
    if not _NAME.fullmatch(name) or name in TAKEN:
        raise text.error(
            ("name",),
            f"name = {_shown(name)} cannot be part of an address",
            hint="use 1 to 64 of a-z, 0-9 and -"
            + (f", but not {listing(TAKEN)}" if name in TAKEN else ""),
        )
    return str(name)


def _day(text: Text, key: str) -> date | None:
    found = text.get((key,), date, f"a day, as in {key} = 2027-01-01")
    if found is not None and type(found) is not date:
        raise text.error((key,), f"{key} = {found} should be a day without a time")
    return found


def _sizes(text: Text, domain: Domain) -> tuple[str, ...]:
    """The baskets whose size is sent as it is."""
    key = ("promise", "sizes")
    found = text.get(key, list, "a list of names of baskets") or []
    baskets = [attribute.name for attribute in domain if isinstance(attribute, Items)]
    for name in found:
        if name not in baskets:
            raise text.error(
                key,
                f"sizes names {_shown(name)}, which is no basket ({listing(baskets) or 'none'})",
            )
    return tuple(found)


def _promise(text: Text) -> Guarantee:
    given = dict(text.table("promise", known=KEYS["promise"]))
    given.pop("sizes", None)
    ways: list[str] = [way for way in ("gamma", "epsilon") if way in given]
    ways += ["rho1 + rho2"] if "rho1" in given or "rho2" in given else []
    if len(ways) != 1:
        raise text.error(
            ("promise",),
            f"a promise is stated one way; found {listing(ways) or 'none'}",
            hint="give gamma, or epsilon, or rho1 and rho2 under [promise]",
        )
    for key in given:
        _positive(text, ("promise", key))
    with text.at("promise", *list(given)[:1]):
        if "gamma" in given:
            guarantee = Guarantee(Fraction(str(given["gamma"])))
        elif "epsilon" in given:
            guarantee = Guarantee.from_epsilon(given["epsilon"])
        elif len(given) < 2:
            raise text.error(("promise",), "rho1 and rho2 belong together; found one of them")
        else:
            guarantee = Guarantee.from_breach(given["rho1"], given["rho2"])
        if guarantee.gamma == 1:
            raise text.error(("promise",), "gamma = 1 lets nothing through; use gamma > 1")
        if guarantee.gamma > MOST_NUMBER:
            raise text.error(
                ("promise", next(iter(given))),
                f"a gamma above {MOST_NUMBER:g} promises nothing; use a smaller one",
            )
        return guarantee


def _positive(text: Text, key: Key) -> float | None:
    found = text.get(key, (int, float), "a number")
    if found is not None and not 0 < found <= MOST_NUMBER:
        raise text.error(
            key, f"{key[-1]} = {_shown(found)} should be a number above 0, at most {MOST_NUMBER:g}"
        )
    return None if found is None else float(found)


def _whole(text: Text, key: Key, default: int, least: int) -> int:
    found = text.get(key, int, "a whole number")
    if found is not None and not least <= found <= MOST_WHOLE:
        raise text.error(
            key, f"{key[-1]} = {_shown(found)} should be at least {least}, at most {MOST_WHOLE}"
        )
    return default if found is None else int(found)


def _dashboard(text: Text, mechanism: Mechanism) -> DashboardRules:
    text.table("dashboard", known=KEYS["dashboard"])
    return DashboardRules(
        bool(text.get(("dashboard", "public"), bool, "true or false")),
        _whole(text, ("dashboard", "least"), LEAST_SHOWN, LEAST_SHOWN),
        _whole(text, ("dashboard", "step"), LEAST_STEP, LEAST_STEP),
        _bounded(text, mechanism),
    )


def _bounded(text: Text, mechanism: Mechanism) -> bool:
    """Whether the estimate is asked for in which a repeated report counts a few times at most."""
    key = ("dashboard", "estimate")
    found = text.get(key, str, 'a word, as in estimate = "bounded"')
    if found not in (None, *ESTIMATES):
        raise text.error(
            key, f"no estimate {_shown(found)} ({listing(ESTIMATES)})", near_miss(found, ESTIMATES)
        )
    law = mechanism.symbol_law
    if found == "bounded" and (law is None or law.most_counted is None):
        raise text.error(
            key,
            f"a bounded estimate needs reports by hashes, and {mechanism.name} sends none here",
            hint='give name = "item-set" and hashes = true under [mechanism], or leave it out',
        )
    return found == "bounded"


def _announced(text: Text, mechanism: Mechanism, promise: Guarantee) -> int | None:
    """How many people are asked in rounds, each in one of them; None where all are asked at once.

    Nobody may answer twice, so that what one browser may spend is less than two rounds cost.
    """
    if "rounds" not in text.data:
        return None
    text.table("rounds", known=KEYS["rounds"])
    people = _needed(text, _whole(text, ("rounds", "people"), 0, LEAST_PEOPLE), "rounds.people")
    if mechanism.name != ROUNDS_BY or text.table("mechanism").keys() - {"name"}:
        raise text.error(
            ("mechanism",),
            f"a campaign in rounds asks by {ROUNDS_BY}, and each round chooses what is asked",
            hint=f'give name = "{ROUNDS_BY}" alone under [mechanism]',
        )
    if "round" in text.table("budget"):
        raise text.error(
            ("budget", "round"), "the store knows which of its rounds a campaign is at"
        )
    budget = _positive(text, ("budget", "epsilon"))
    if budget is None or not 0 <= budget - promise.epsilon + ROUNDING < promise.epsilon:
        raise text.error(
            ("budget", "epsilon") if budget else ("rounds",),
            f"in rounds nobody answers twice, so one browser may spend {promise.epsilon_words} and "
            f"less than twice that; found {'nothing' if budget is None else left_words(budget)}",
            hint=f"give epsilon = {once(promise)} under [budget]",
        )
    return int(people)


def once(promise: Guarantee) -> float:
    """A budget that one answer under this promise spends, and no second one fits into."""
    return math.ceil((promise.epsilon - ROUNDING) * 1e4) / 1e4


def _domain(text: Text, schema: Text) -> Domain:
    entries = schema.data.get("attribute")
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        with schema.at("attribute", place):  # one at a time, so that an error has its line
            Domain.from_dict({"attribute": [entry]})
    with schema.at("attribute"):
        data = {"title": schema.data.get("title")} if schema is not text else {}
        title = {"title": data["title"]} if isinstance(data.get("title"), str) else {}
        domain = Domain.from_dict({"attribute": entries} | title)
    return _with_no_answer(text, domain)


def _with_no_answer(text: Text, domain: Domain) -> Domain:
    """The domain with the value "no answer" where a question may be declined: a value like the
    others, since a missing field would be a true statement.
    """
    attributes: list[Attribute] = []
    for attribute in domain:
        key = ("question", attribute.name, "decline")
        declined = text.get(key, bool, "true or false")
        attributes.append(_declinable(text, key, attribute) if declined else attribute)
    return replace(domain, attributes=tuple(attributes))


def _declinable(text: Text, key: Key, attribute: Attribute) -> Attribute:
    labels = attribute.labels if isinstance(attribute, Category | Items) else ()
    if isinstance(attribute, Numeric):
        if not attribute.cuts:
            raise text.error(
                key,
                f"'{attribute.name}' is a number without cuts, which leaves no room for "
                f"'{NO_ANSWER}'",
                hint="give it cuts in the schema, so that ranges are asked; or decline = false",
            )
        labels = attribute.bins().labels
    if isinstance(attribute, Bins):
        labels = attribute.labels
    if NO_ANSWER in labels:
        return attribute
    if isinstance(attribute, Category | Items):
        return replace(attribute, values=(*labels, NO_ANSWER))
    return Category(attribute.name, (*labels, NO_ANSWER), public=attribute.public)


def _mechanism(text: Text, domain: Domain, promise: Guarantee) -> Mechanism:
    given = dict(text.table("mechanism"))
    name = text.get(("mechanism", "name"), str, "the name of a mechanism")
    given.pop("name", None)
    if name is None and given:
        raise text.error(("mechanism",), "parameters need the name of their mechanism")
    if name is None:
        return best_mechanism(domain, promise)
    kind = mechanism_class(name)
    options = {key.replace("-", "_"): value for key, value in given.items()}
    known = {option.name: option for option in kind.options}
    for key in given:
        if key.replace("-", "_") not in known:
            raise text.error(
                ("mechanism", key),
                f"'{key}' is no parameter of {name} ({listing(known) or 'it has none'})",
                near_miss(key, known),
            )
        if known[key.replace("-", "_")].kind is bool:
            text.get(("mechanism", key), bool, "true or false")
    for option in options.keys() & known.keys():
        if known[option].kind is Path:  # beside the campaign file, as its schema is
            options[option] = text.folder / str(options[option])
    if all(known[option].beside for option in options):
        make: Callable[..., Mechanism] = kind.promising
        return make(promise, domain, **parsed(kind.options, options))
    mechanism = kind.from_options(domain, options)
    if not promise.allows(mechanism.guarantee):
        raise text.error(
            ("mechanism", next(iter(given))),
            f"with these parameters {name} has {mechanism.guarantee}, above the promise of "
            f"{promise}",
            hint="leave the parameters out: the promise decides them",
        )
    return mechanism


def _questions(text: Text, domain: Domain) -> dict[str, Wording]:
    questions = {}
    for name in text.table("question"):
        if name not in domain:
            raise text.error(
                ("question", name),
                f"no attribute '{name}' to ask about ({listing(domain.names)})",
                near_miss(name, domain.names),
            )
        text.table("question", name, known=KEYS["question"])
        values = text.table("question", name, "values")
        for value in values:
            if value not in domain[name].labels:
                raise text.error(
                    ("question", name, "values", value),
                    f"'{value}' is no value of '{name}' ({listing(domain[name].labels)})",
                    near_miss(value, domain[name].labels),
                )
        questions[name] = Wording(
            text.words("question", name, "text"),
            {value: text.words("question", name, "values", value) for value in values},
            bool(text.get(("question", name, "decline"), bool, "true or false")),
        )
    return questions


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "…"
