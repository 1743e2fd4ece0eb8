"""Audit: what attackers learn from a release, and whether its mechanism kept its word, as words and
figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from warnings import warn

from sfumato.audit.amplification import Amplification
from sfumato.audit.attack import Attack, Linkage
from sfumato.audit.breaches import Breaches
from sfumato.audit.power import Power
from sfumato.audit.score import Check
from sfumato.privacy.guarantee import Guarantee, rounded_up
from sfumato.privacy.siblings import SiblingAccount
from sfumato.renderers.frames import json_value
from sfumato.renderers.picture import bars
from sfumato.result import Result
from sfumato.view import Chart, ColumnView, TableView, View

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
class Audit(Result):
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
                f"above the promised {self.guarantee.gamma_words}"
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
        return (self._verdict(), *guesses, *self._measured(), *seen, *self.left_out)

    def view(self) -> View:
        """All of it: what attackers learn, what was measured, every check, what is not covered."""
        checks = TableView.of(
            ("what should hold", "p-value", "where it holds least", ""),
            [(each.name, each.p_value, each.detail, each in self.failed) for each in self.checks],
            fields=("check", "p_value", "detail", "failed"),
        )
        title = f"checks (a p-value below {self.threshold:.2g} fails)"
        against = View("against the promise", self.violations)
        return View(
            "Audit of a release",
            self.sentences(),
            charts=self._charts(),
            tables=self._guessed(self.attacks, "guessed right, in per cent"),
            sections=(
                *([against] if self.violations else []),
                View(title, tables=(checks,), notes=LIMITS, detail=True),
            ),
        )

    def brief(self) -> View:
        """The verdict, the worst that speaks against it, what was measured, the targets of which
        reports tell most (each by the prior that guesses best), and the checks in one line.
        """
        rest = len(self.violations) - 1
        best: dict[str, Attack] = {}
        for attack in self.attacks:
            if attack.target not in best or attack.gain > best[attack.target].gain:
                best[attack.target] = attack
        worst = sorted(best.values(), key=lambda each: (each.target != "record", -each.gain))
        return View(
            words=(
                self._verdict(),
                *([f"and {rest} more against the promise"] if rest > 0 else []),
                *self._measured(),
                *self.left_out,
            ),
            tables=self._guessed(
                worst, "guessed right by the better prior, in per cent, worst first"
            ),
            sections=(View(words=(self._checked(),)),),
            notes=LIMITS[:1] if self.clean else (),
        )

    def _guessed(self, attacks: Sequence[Attack], caption: str) -> tuple[TableView, ...]:
        """The share of right guesses without and with the reports, a line for each attack; where
        all or none are right, their number says more than a standard error of 0.
        """
        further = [a.siblings and 100 * a.siblings for a in attacks]
        columns = (
            ColumnView("guess at", [a.target for a in attacks]),
            ColumnView("prior", [a.prior for a in attacks]),
            ColumnView("without report", [100 * a.baseline for a in attacks]),
            ColumnView(
                "with report",
                [100 * a.right for a in attacks],
                [100 * a.stderr or math.nan for a in attacks],
                ends=[(100 * a.baseline, 100 * a.right) for a in attacks],
                counts=True,
            ),
            *([ColumnView(f"with {self.copies} reports", further)] if self.copies > 1 else []),
        )
        return (TableView(columns, caption),) if attacks else ()

    def _charts(self) -> tuple[Chart, ...]:
        """How often the record and each column is guessed right."""
        shown = [attack for attack in self.attacks if attack.prior == "true"]
        chart = bars(
            "guessed right (%)",
            [attack.target for attack in shown],
            [100 * attack.baseline for attack in shown],
            [100 * attack.right for attack in shown],
            stderr=[100 * attack.stderr for attack in shown],
            called=("without a report", "with a report"),
            caption="What the best guess gets right, in per cent: from the true distribution "
            "alone, and from a report too, with 95 % intervals of the people attacked",
        )
        return (chart,) if shown else ()

    def _measured(self) -> tuple[str, ...]:
        """What several reports of a person promise, gamma as measured, breaches and links."""
        lines = [] if self.siblings is None else [str(self.siblings)]
        if self.amplification is not None:
            lines.append(
                f"measured on {self.amplification.draws:,} draws a record, gamma is at least "
                f"{self.amplification.lower_bound:.4g}; promised is at most "
                f"{self.guarantee.gamma_words}"
            )
        if self.breaches is not None:
            lines.append(_breach_words(self.breaches))
        return (*lines, self._linkage_words())

    def _checked(self) -> str:
        """How many checks there were, how many failed, and which was the least likely."""
        tried = f"{len(self.checks)} checks, {len(self.failed) or 'none'} failed"
        if self.failed or not self.checks:
            return tried
        least = min(self.checks, key=lambda check: check.p_value)
        return (
            f"{tried} (p below {self.threshold:.2g}); the least likely: {least.name}, "
            f"p {least.p_value:.2g}"
        )

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

    def to_dict(self) -> dict[str, Any]:
        """The audit as one JSON object."""
        siblings = self.siblings and {
            "copies": self.siblings.copies,
            "epsilon": self.siblings.guarantee.epsilon,
            "guess_bound": self.siblings.guess_bound,
        }
        said: dict[str, Any] = json_value(
            {
                "rows": self.people,
                "copies": self.copies,
                "mechanism": self.mechanism,
                "gamma": rounded_up(self.guarantee.gamma),
                "epsilon": self.guarantee.epsilon,
                "clean": self.clean,
                "violations": self.violations,
                "attacks": self.attacks,
                "siblings": siblings,
                "empirical_gamma": self.amplification,
                "breaches": self.breaches,
                "linkage": self.linkage,
                "checks": self.checks,
                "false_alarm": self.false_alarm,
                "smallest_leaks": self.power,
                "left_out": self.left_out,
                "words": self.sentences(),
                "limits": LIMITS,
            }
        )
        return said


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
