"""Policy: what respondents allow, whatever a server asks; and the terms of a campaign, which they
see before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import FileError, ParameterError, PrivacyError, SfumatoError, listing, near_miss
from sfumato.files import user_folder
from sfumato.printable import downwards, json_number, one_line
from sfumato.privacy.account import ROUNDING, left_words, spent_words
from sfumato.privacy.guarantee import PRIOR, Gamma, Guarantee
from sfumato.untrusted import MOST_ATTRIBUTES, MOST_NUMBER, Untrusted, parsed_toml, read_text

MOST_BYTES = 1 << 16  # of a policy file


@dataclass(frozen=True)
class CampaignTerms:
    """What a campaign takes of a person: computed on this device, from the program and the ledger.

    >>> terms = CampaignTerms("health round 1", "ab12", Guarantee(19), ("age",), (), 6.0, 0, 0.0)
    >>> print("\\n".join(terms.lines))
    campaign          health round 1
    version           ab12
    gamma             19 (epsilon 2.945): a suspicion of 5 % becomes at most 50 %
    sent blurred      age
    sent as it is     nothing
    answered before   0 times; epsilon 0 is spent of the 6 that this server may have
    """

    release: str
    hash: str
    guarantee: Guarantee
    blurred: tuple[str, ...]  # columns of the record that the report depends on
    sent_as_is: tuple[str, ...]  # columns of which something is sent as it is
    budget: float  # epsilon, of one person for all campaigns of this server
    answered: int | None  # reports of the person to this server; of several people the most
    spent: float | None  # epsilon; None where no ledger knows

    @property
    def lines(self) -> list[str]:
        """The terms in words."""
        before = (
            "not known: no ledger is kept"
            if self.answered is None
            else f"{self.answered:,} {'time' if self.answered == 1 else 'times'}; epsilon "
            f"{spent_words(self.spent or 0.0)} is spent of the {left_words(self.budget)} that this "
            "server may have"
        )
        facts = {
            "campaign": one_line(self.release),
            "version": one_line(self.hash),
            "gamma": f"{str(self.guarantee).removeprefix('gamma ')}: a suspicion of "
            f"{100 * PRIOR:g} % becomes at most {self.guarantee.posterior_words()}",
            "sent blurred": _all_of(self.blurred),
            "sent as it is": _all_of(self.sent_as_is),
            "answered before": before,
        }
        return [f"{name:17} {words}" for name, words in facts.items()]

    def to_dict(self) -> dict[str, Any]:
        """The terms as JSON data."""
        return {
            "campaign": self.release,
            "version": self.hash,
            **self.guarantee.to_dict(),
            "blurred": list(self.blurred),
            "sent_as_is": list(self.sent_as_is),
            "answered": self.answered,
            "spent": None if self.spent is None else json_number(self.spent),
            "budget": json_number(self.budget),
        }


@dataclass(frozen=True)
class Policy:
    """The limits of a respondent, which no server can raise: the largest gamma, the columns that
    may be sent as they are, and the epsilon that one server may have of one person.

    >>> Policy(public=("region",)).check(Guarantee(19), {"region": "region"})
    >>> Policy().check(Guarantee(50), {})
    Traceback (most recent call last):
    sfumato.errors.PrivacyError: this campaign has gamma 50 (epsilon 3.913), above your limit...
    """

    at_most: Gamma = 20
    public: tuple[str, ...] = ()
    budget: float = 6.0

    def __post_init__(self) -> None:
        if not self.at_most >= 1:
            raise ParameterError(
                f"at_most={self.at_most} allows nothing; use the largest gamma that you allow, "
                "above 1"
            )
        if not self.budget > 0:
            raise ParameterError(
                f"budget={self.budget} allows nothing; use an epsilon above 0 for each server"
            )

    @classmethod
    def own(cls) -> Policy:
        """This user's policy: that of their file, the usual one where there is none."""
        path = policy_file()
        if path is None or not (path.exists() or path.is_symlink()):
            return cls()
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> Policy:
        """The policy of a file; one that is not understood whole is refused."""
        where = f"the policy {path}"
        if not path.is_file():
            raise FileError(f"{where} is no file", hint="remove it, or write at_most = 20 in it")
        try:
            text = read_text(path, where, MOST_BYTES)
            given = Untrusted(parsed_toml(text, where), where)
            given.only("at_most", "public", "budget")
            stated = given.fields()
            policy = cls()
            if "at_most" in stated:
                policy = replace(policy, at_most=stated["at_most"].number(1, MOST_NUMBER))
            if "public" in stated:
                policy = replace(policy, public=stated["public"].words(MOST_ATTRIBUTES))
            if "budget" in stated:
                policy = replace(policy, budget=stated["budget"].number(0, MOST_NUMBER))
        except SfumatoError as error:
            hint = error.hint or "nothing was sent; mend it, or remove it"
            raise FileError(error.message, hint=hint) from None
        return policy

    def stating(
        self,
        at_most: Gamma | None = None,
        public: Collection[str] | None = None,
        budget: float | None = None,
    ) -> Policy:
        """The policy with what was said for once; None leaves what it says."""
        return Policy(
            self.at_most if at_most is None else at_most,
            self.public if public is None else tuple(public),
            self.budget if budget is None else budget,
        )

    def check(
        self, guarantee: Guarantee, sent_as_is: Mapping[str, str], *, kept: bool = True
    ) -> None:
        """Refuse what is above the limits, before anything is drawn. Where no ledger keeps what was
        spent, one answer alone must be within the budget.
        """
        if not Guarantee(self.at_most).allows(guarantee):
            raise PrivacyError(
                f"this campaign has {guarantee}, above your limit of "
                f"{downwards(self.at_most, 6):g}: a suspicion of {100 * PRIOR:g} % could become "
                f"{guarantee.posterior_words()}; nothing was drawn or sent",
                hint="do not answer; or allow it yourself, by --at-most, in Python at_most=",
                gamma=guarantee.gamma,
                at_most=self.at_most,
            )
        if not kept and guarantee.epsilon > self.budget + ROUNDING:
            raise PrivacyError(
                f"one answer to this campaign costs epsilon {guarantee.epsilon_words}, above your "
                f"budget of {left_words(self.budget)} for a server; nothing was drawn or sent",
                hint="do not answer; or allow it yourself, by --budget, in Python budget=",
            )
        strange = [words for name, words in sent_as_is.items() if name not in self.public]
        if strange:
            meant = (near_miss(name, sent_as_is) for name in self.public if name not in sent_as_is)
            raise PrivacyError(
                f"this campaign sends {listing(strange)} as it is, without a blur, which you did "
                "not allow; nothing was drawn or sent",
                hint=next(filter(None, meant), None)
                or "do not answer; or allow it yourself, by --public NAME, in Python public=[…]",
                sent_as_is=tuple(strange),
            )


def _all_of(columns: Sequence[str]) -> str:
    return one_line(listing(columns, most=len(columns))) or "nothing"


def policy_file() -> Path | None:
    """Where this user's policy stands: `sfumato/policy.toml` where the system keeps settings; None
    where an account has no such place.
    """
    folder = user_folder("config")
    return None if folder is None else folder / "policy.toml"
