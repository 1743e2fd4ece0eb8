"""Audit: what attackers learn from a release, and whether its mechanism kept its word, as words and
figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from warnings import warn

from sfumato import plots
from sfumato.audit.amplification import Amplification
from sfumato.audit.attack import Attack
from sfumato.audit.breaches import Breaches
from sfumato.audit.linkage import Linkage
from sfumato.audit.power import Power
from sfumato.audit.score import Check
from sfumato.errors import ParameterError
from sfumato.notebook import Framed, arrow_table, html_table
from sfumato.printable import json_number
from sfumato.privacy.guarantee import Guarantee, rounded_up
from sfumato.privacy.probability import check_count
from sfumato.privacy.siblings import SiblingAccount
from sfumato.renderers.sparkline import spans

LIMITS = (
    "a clean audit is no proof: it rules out what it looked for, in this release, at the stated "
    "rate of false alarms",
    "the attacks know the mechanism and the distribution of the records, and nothing else of the "
    "people in them",
    "records are taken as independent: what one person's report says about a relative is not "
    "covered",
)


# How the rate of false alarms is shared: among all checks, and for the empirical gamma and the
# breaches each.
CHECKS_SHARE, OTHER_SHARE = 0.5, 0.25


@dataclass(frozen=True, repr=False)
class Audit(Framed):
    """Attacks on a release, its promise against what was measured, and every check with its
    probability.
    """

    mechanism: str
    people: int
    copies: int
    guarantee: Guarantee  # of one report
    attacks: tuple[Attack, ...]
    siblings: SiblingAccount | None
    amplification: Amplification | None
    breaches: Breaches | None  # None where reports and records are not paired
    linkage: Linkage
    checks: tuple[Check, ...]
    false_alarm: float
    power: Power | None = None
    left_out: tuple[str, ...] = ()

    @property
    def sight(self) -> Power | None:
        """The former name of `power`."""
        warn("Audit.sight is now Audit.power", DeprecationWarning, stacklevel=2)
        return self.power

    @property
    def threshold(self) -> float:
        """The p-value below which a check has failed: the rate of false alarms shared among the
        checks.
        """
        return self.false_alarm * CHECKS_SHARE / max(1, len(self.checks))

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that chance does not explain."""
        return tuple(check for check in self.checks if check.p_value < self.threshold)

    @property
    def violations(self) -> tuple[str, ...]:
        """What contradicts the promise, one line each, the worst first; empty for a mechanism that
        keeps its word.
        """
        lines = []
        if self.amplification is not None and self.amplification.violated:
            lines.append(
                f"gamma is at least {self.amplification.lower_bound:.4g} "
                f"({self.amplification.event}), "
                f"above the promised {rounded_up(self.guarantee.gamma):.6g}"
            )
        if self.breaches is not None and self.breaches.violated:
            lines.append(
                f"{self.breaches.beyond} beliefs are raised further than the promise allows"
            )
        failed = sorted(self.failed, key=lambda check: check.p_value)
        return (*lines, *(f"it is not so that {_clause(check)}" for check in failed))

    @property
    def clean(self) -> bool:
        """Whether nothing was found against the promise."""
        return not self.violations

    def sentences(self) -> tuple[str, ...]:
        """The audit in plain words."""
        guesses = (self._attack_words(a) for a in self.attacks if a.target == "record")
        seen = () if self.power is None else self.power.sentences()
        return (self._verdict(), *guesses, *self.measured(), *seen, *self.left_out)

    def findings(self, most: int) -> tuple[str, ...]:
        """The verdict with the worst of what is against it, and how much more there is: at most
        `most` lines.
        """
        check_count("most", most, 2)
        further = self.violations[1:]
        shown = further if len(further) < most else further[: most - 2]
        rest = len(further) - len(shown)
        more = (f"and {rest} more against the promise",) if rest else ()
        return (self._verdict(), *(f"and {line}" for line in shown), *more)

    def measured(self) -> tuple[str, ...]:
        """What several reports of a person promise, gamma as measured, breaches and links."""
        lines = [] if self.siblings is None else [str(self.siblings)]
        if self.amplification is not None:
            lines.append(
                f"measured on {self.amplification.draws:,} draws a record, gamma is at least "
                f"{self.amplification.lower_bound:.4g}; promised is at most "
                f"{rounded_up(self.guarantee.gamma):.6g}"
            )
        if self.breaches is not None:
            lines.append(_breach_words(self.breaches))
        return (*lines, self._linkage_words())

    def checked(self) -> str:
        """How many checks there were, how many failed, and which was the least likely."""
        tried = f"{len(self.checks)} checks, {len(self.failed) or 'none'} failed"
        if self.failed or not self.checks:
            return tried
        least = min(self.checks, key=lambda check: check.p_value)
        return (
            f"{tried} (p below {self.threshold:.2g}); the least likely: {least.name}, "
            f"p {least.p_value:.2g}"
        )

    def worst_header(self) -> tuple[str, ...]:
        """The names of the columns of `worst`."""
        return tuple(name for name in self.header() if name != "prior")

    def worst(self, most: int) -> tuple[list[tuple[str, ...]], int]:
        """The record and the columns of which reports tell most, as rows of text, at most so many;
        and how many columns are left. Each by the prior that guesses best.
        """
        check_count("most", most, 0)
        best: dict[str, tuple[Attack, tuple[str, ...]]] = {}
        for attack, (_, _, *figures) in zip(self.attacks, self.table(), strict=True):
            row = (attack.target, *figures)
            if attack.target not in best or attack.gain > best[attack.target][0].gain:
                best[attack.target] = attack, row
        found = sorted(best.values(), key=lambda each: (each[0].target != "record", -each[0].gain))
        return [row for _, row in found[:most]], len(found[most:])

    def _verdict(self) -> str:
        if self.clean:
            return (
                f"nothing was found against the promise of {self.mechanism} "
                f"({len(self.checks)} checks)"
            )
        return (
            f"{self.mechanism} does not keep its promise, or this is not the truth of this "
            f"release: {self.violations[0]}"
        )

    def _attack_words(self, attack: Attack) -> str:
        words = (
            f"with the {attack.prior} distribution known, {_percent(attack.right)} of the records "
            "are guessed right "
            f"from a report, {_percent(attack.baseline)} without"
        )
        if attack.siblings is None:
            return words
        return f"{words}, {_percent(attack.siblings)} from all {self.copies} reports of a person"

    def _linkage_words(self) -> str:
        if not self.linkage.columns:
            return "no column is public, so reports cannot be linked to people by their values"
        names = ", ".join(self.linkage.columns)
        return (
            f"{self.linkage.unique:,} of {self.linkage.people:,} people stand alone with their "
            f"public values ({names}); "
            "whoever knows these finds the right report with probability "
            f"{_percent(self.linkage.found)}"
        )

    def header(self) -> tuple[str, ...]:
        """The names of the columns of `table`."""
        columns = ("guess at", "prior", "without report", "with report")
        return (*columns, f"with {self.copies} reports") if self.copies > 1 else columns

    def table(self) -> list[tuple[str, ...]]:
        """One row an attack: the share of right guesses without and with the reports."""
        rows: list[tuple[str, ...]] = []
        for attack in self.attacks:
            row = (attack.target, attack.prior, _percent(attack.baseline), _percent(attack.right))
            more = "–" if attack.siblings is None else _percent(attack.siblings)
            rows.append((*row, more) if self.copies > 1 else row)
        return rows

    def plot(self, *, axes: Any = None) -> Any:
        """How often the record and each column is guessed right, from the true distribution alone
        and from a report too, with 95 % intervals of the people attacked; the axes it was drawn on.
        """
        if not self.attacks:
            raise ParameterError(
                "there is nothing to draw: the attacks were left out",
                hint="give the order in which the reports were shuffled",
            )
        shown = [attack for attack in self.attacks if attack.prior == "true"]
        return plots.risk(
            [attack.target for attack in shown],
            [100 * attack.baseline for attack in shown],
            [100 * attack.right for attack in shown],
            stderr=[100 * attack.stderr for attack in shown],
            quantity="guessed right (%)",
            called=("without a report", "with a report"),
            axes=axes,
        )

    def _repr_html_(self) -> str:
        """The attacks as notebooks show them, with the findings in words."""
        pictures = spans([(a.right, a.baseline, a.right) for a in self.attacks], words=_percent)
        lines = [(*line, seen) for line, seen in zip(self.table(), pictures, strict=True)]
        return html_table((*self.header(), ""), lines, notes=self.sentences())

    def to_arrow(self) -> Any:
        """A table with one row a check: what should hold, the p-value, where it was least, and
        whether chance no longer explains it. The attacks are in `to_dict`.
        """
        rows = ((c.name, c.p_value, c.detail, c in self.failed) for c in self.checks)
        return arrow_table(rows, check="string", p_value="double", detail="string", failed="bool")

    def to_dict(self) -> dict[str, Any]:
        """The audit as one JSON object."""
        return {
            "rows": self.people,
            "copies": self.copies,
            "mechanism": self.mechanism,
            "gamma": json_number(rounded_up(self.guarantee.gamma)),
            "epsilon": json_number(self.guarantee.epsilon),
            "clean": self.clean,
            "violations": list(self.violations),
            "attacks": [attack.to_dict() for attack in self.attacks],
            "siblings": None
            if self.siblings is None
            else {
                "copies": self.siblings.copies,
                "epsilon": json_number(self.siblings.guarantee.epsilon),
                "guess_bound": self.siblings.guess_bound,
            },
            "empirical_gamma": None if self.amplification is None else self.amplification.to_dict(),
            "breaches": None if self.breaches is None else self.breaches.to_dict(),
            "linkage": self.linkage.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
            "false_alarm": self.false_alarm,
            "smallest_leaks": None if self.power is None else self.power.to_dict(),
            "left_out": list(self.left_out),
            "words": list(self.sentences()),
            "limits": list(LIMITS),
        }


def _breach_words(breaches: Breaches) -> str:
    promised = "ruled out" if breaches.ruled_out else "not ruled out"
    return (
        f"{breaches.found or 'no'} beliefs of at most {_percent(breaches.rho1)} became "
        f"{_percent(breaches.rho2)} or more (such breaches are {promised} by the promise)"
    )


def _clause(check: Check) -> str:
    where = f" ({check.detail})" if check.detail else ""
    return f"{check.name}{where}: p = {check.p_value:.2g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
