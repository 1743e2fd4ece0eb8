"""Item-set: one symbol for a whole basket, under one γ for the whole basket."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Decoded
from sfumato.domain import Category, Cells, Columns, Domain, Items, Numeric
from sfumato.errors import FileError, ParameterError, SchemaError, Unanswerable, listing
from sfumato.mechanisms.base import (
    Mechanism,
    Within,
    by_parameters,
    check_kept,
    every_cell,
    is_public,
    rows_of,
    safe_log,
    steps_of,
)
from sfumato.mechanisms.in_rounds import SHARES, RoundDesign, SeriesSoFar
from sfumato.mechanisms.parameters import Option
from sfumato.mechanisms.sizes import MOST_TIERS, SizeBins, tiers_above
from sfumato.mechanisms.steps import Collide, Deal, Step, Symbol
from sfumato.mechanisms.weights import simple_below
from sfumato.observation import CellTally, Observation, SymbolLaw
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import MOST_LABELS, MOST_LIST_BYTES, Untrusted, read_text

LEAST_CAP = 2  # with one symbol, a basket that tells its tier would tell of no item
CAP = 8  # own symbols of a basket under collision, whose hashes cost more the more it may hold
DIRECT_CAP = 24  # own candidates of a basket: few hold more, so that little is left out
LOST_BY_CAP = 2.0  # times the variance, what the smaller cap may cost
SEEDS = 1 << 12  # entries of the pool of hashes
FINENESS = 256  # the denominator of a gamma that is no simple fraction
MOST_WEIGHT = 1 << 15  # of an own symbol, for such a gamma: a large one needs no fine denominator
MOST_GAMMA = 10_000
MOST_TOTAL = 1 << 24  # the largest bound that one draw is taken below
MOST_CAP = 256
NONE = "(none)"
NEWTON = 30  # steps towards a rate behind censored counts
WANTED = 64  # itemsets of largest support that rounds look for, unless told otherwise
PAID = 100.0  # the γ beyond which more candidates cost more work than they find
SMALL_WORK = 1 << 22  # hashes that NumPy computes before numba is loaded

AS_USUAL = "sizes of baskets as uneven as is usual, from a Poisson law to a few very large ones"
LIKE_OTHERS = "that the cap took about as much of this item as of all others"
Candidates = tuple[tuple[int, ...], ...]


class BasketRounds(RoundDesign):
    """Any item first, then the candidates that the groups before made probable."""

    asked_by = "item-set"
    shares = SHARES
    joins_by_model = False
    about = "items"
    at_last = "then mine all rounds together: sfumato mine ROUND1 ROUND2 ROUND3"

    def first(self, guarantee: Guarantee, domain: Domain, **given: Any) -> ItemSet:
        return ItemSet.promising(guarantee, domain, **given)

    def following(self, series: SeriesSoFar, people: float, wanted: int) -> ItemSet:
        asking, gamma = series.asking(wanted, people, MOST_CAP), series.mechanism.gamma
        if asking.dealt:
            return ItemSet(series.domain, gamma, 1, asking.candidates, dealt=True)
        tiers = tiers_above(asking.cap, len(asking.candidates))
        return ItemSet(
            series.domain, gamma, asking.cap, asking.candidates, asking.buckets, tiers=tiers
        )

    def predicted(self, guarantee: Guarantee, domain: Domain) -> ItemSet:
        """All rounds as a plan sees them."""
        return ItemSetInRounds.promising(guarantee, domain)

    def asks(self, mechanism: Any, number: int) -> str:
        if number == 1:
            return " for any item"
        lengths = sorted({len(each) for each in mechanism.candidates})
        each = ", one of them each" if mechanism.dealt else ""
        return (
            f" for {len(mechanism.candidates)} candidates of {lengths[0]} to {lengths[-1]} items"
            f"{each}"
        )


@dataclass(frozen=True, repr=False)
class ItemSet(Mechanism):
    """One symbol of weight a for what a basket holds, at most `cap` of it, and b otherwise, so that
    the total weight Ω is the same for every basket.

    *Direct*: symbols are candidates (items, or sets of them) and "none"; own candidates beyond the
    cap are left out by chance; Ω = m·a + d·b. *By collision*: symbols are the buckets of a public
    hash of items or candidates, drawn afresh from a pool; own buckets are filled up at random to
    exactly m of t; Ω = m·a + (t−m)·b, however many there are. Variances of a share, n people: (d +
    mγ)/(n(γ−1)²) and (t−1)(mγ+t−m)²/(n(t−m)²(γ−1)²), the second least at t = m(1+c), c =
    (γ+√(γ²+8γ))/2. *Dealt*: each person is asked about one candidate, drawn for all to see, and
    answers yes or no by randomised response (Warner 1965): nothing is capped, and the variance of
    a share x is d(x(1−x) + γ/(γ−1)²)/n, the least where baskets hold most candidates.

    *Tiers*: what a cap takes hangs on how many baskets are large, which capped reports do not say.
    So a basket that holds more than the cap has one own symbol for how much it holds, a tier of
    sizes, and keeps one symbol less of the others. Tiers are symbols like all others (K more in
    the direct form, no dearer by collision), and are decoded alike.

    **Proof of the guarantee.** Given the hash, the own symbols that were kept and those filled up,
    a report has probability a/Ω or b/Ω, Ω being the same for all baskets; so every ratio is at most
    a/b = γ. The hash is drawn by chance that no basket moves, the rest are mixtures: a ratio of
    mixtures is at most the largest ratio mixed. Which symbols are own, a tier among them, is any
    function of the basket, at most m of them. ∎
    """

    name = "item-set"
    rounds = BasketRounds()
    summary = "baskets: one symbol for all of it, one γ for all of it"
    options = (
        Option(
            "cap",
            "own symbols of a basket at most",
            int,
            beside=True,
            needed=False,
            remarks=lambda mechanism, given: mechanism._of_cap(given),
        ),
        Option(
            "candidates",
            "a file of itemsets that people may report, one a line, items parted by commas",
            Path,
            beside=True,
            needed=False,
        ),
        Option(
            "hashes",
            "report hashes of items even where items themselves would be more accurate: a report "
            "that is sent again and again is then noticed, and can be bounded",
            bool,
            beside=True,
            needed=False,
        ),
    )
    called: ClassVar[Mapping[str, str]] = {
        "buckets": "hash values",
        "seeds": "public hashes",
        "pool": "hashes of",
        "tiers": "sizes told from",
        "dealt": "one candidate a person",
    }
    domain: Domain
    gamma: Gamma
    cap: int
    candidates: Candidates = ()  # none: by collision over every item
    buckets: int = 0  # of collision; none: direct
    seeds: int = SEEDS
    pool: str = "sfumato"
    tiers: tuple[int, ...] = ()  # where each begins, the first above the cap; none: not told
    dealt: bool = False  # whether each person is asked about one candidate alone

    def __post_init__(self) -> None:
        items = self._items
        if not 1 < self.gamma <= MOST_GAMMA or Fraction(self.gamma).denominator > FINENESS:
            raise ParameterError(
                f"gamma={float(self.gamma):g} must be above 1, at most {MOST_GAMMA:,}, and have "
                f"a denominator of at most {FINENESS}"
            )
        object.__setattr__(self, "gamma", Fraction(self.gamma))
        if not 1 <= self.cap <= MOST_CAP:
            raise ParameterError(f"cap={self.cap} must lie in 1..{MOST_CAP}")
        if not self.candidates and not self.buckets:
            raise ParameterError("give candidates, or buckets to hash into")
        check_candidates(self.candidates, items)
        if self.buckets and not (self.cap < self.buckets <= 1 << 16 and 1 <= self.seeds <= 1 << 16):
            raise ParameterError(
                f"{self.buckets} buckets for a cap of {self.cap}, and {self.seeds} hashes"
            )
        if self.dealt and (self.buckets or self.tiers or self.cap > 1 or not self.candidates):
            raise ParameterError("where one candidate is dealt, there are no buckets, tiers or cap")
        found = list(self.tiers)
        if found and (self.cap < 2 or found[0] != self.cap + 1 or found != sorted(set(found))):
            raise ParameterError(
                f"tiers from {found} on beside a cap of {self.cap}: the first begins above the "
                "cap, which is 2 or more, and each above the one before"
            )
        if self.total > MOST_TOTAL:
            raise ParameterError(
                f"the weights of {len(self.candidates):,} candidates are too many for one draw",
                hint="use fewer candidates",
            )

    @property
    def _items(self) -> Items:
        attributes = self.domain.private.attributes
        if len(attributes) != 1 or not isinstance(attributes[0], Items):
            raise SchemaError(
                f"{self.name} reports one column of baskets, and this schema's private columns are "
                f"{listing(self.domain.private.names)}",
                hint="make other columns public, or use combined",
            )
        return attributes[0]

    @classmethod
    def promising(
        cls,
        guarantee: Guarantee,
        domain: Domain,
        *,
        cap: int | None = None,
        candidates: str | Path | Candidates | None = None,
        hashes: bool = False,
    ) -> Self:
        """Direct over the candidates; without any over the single items, or by collision where
        that has the smaller error or `hashes` are asked for.
        """
        gamma = float(guarantee.gamma)
        if not 1 < gamma < math.inf:
            raise ParameterError(f"gamma={gamma:g} cannot be promised by {cls.name}")
        kept = simple(Fraction(guarantee.gamma))
        private = domain.private.attributes
        if len(private) != 1 or not isinstance(private[0], Items):
            return cls(domain, kept, CAP, buckets=CAP + 1)  # refused there, by name
        items = private[0]
        if candidates is not None:
            sets = (
                candidates if isinstance(candidates, tuple) else read_candidates(candidates, items)
            )
            most = min(_telling(cap, CAP if hashes else DIRECT_CAP), len(sets))
            buckets = best_buckets(most, float(kept)) if hashes else 0
            mechanism = cls(domain, kept, most, sets, buckets, tiers=tiers_above(most, len(sets)))
        else:
            mechanism = cls._over_items(domain, kept, cap, items.size, hashes)
        check_kept(mechanism, guarantee)
        return mechanism

    @classmethod
    def _over_items(
        cls, domain: Domain, gamma: Fraction, cap: int | None, items: int, hashes: bool
    ) -> Self:
        singles = tuple((item,) for item in range(items))
        most, value = min(_telling(cap, DIRECT_CAP), items), float(gamma)
        if most < 1:
            raise ParameterError(f"cap={cap} must lie in 1..{MOST_CAP}")
        hashed = _telling(cap, CAP)
        tiers = tiers_above(most, items)
        direct = direct_variance(most, items + len(tiers), value)
        collision = collision_variance(hashed, best_buckets(hashed, value), value)
        # With the smaller cap of its own, hashing loses part of the large baskets.
        if not hashes and direct <= (collision if hashed == most else LOST_BY_CAP * collision):
            return cls(domain, gamma, most, singles, tiers=tiers)
        buckets = best_buckets(hashed, value)
        return cls(domain, gamma, hashed, buckets=buckets, tiers=tiers_above(hashed, items))

    def _of_cap(self, asked: int) -> tuple[str, ...]:
        """What is said where the cap is not the one that was asked for."""
        if asked < LEAST_CAP <= self.cap:
            return (
                f"with cap {asked} nobody could tell how much baskets hold, and supports would be "
                f"several times too large or too small: it is {self.cap}",
            )
        if asked <= self.cap:
            return ()
        return (f"cap {asked} is above the {self.cap} candidates there are: it is {self.cap}",)

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        if self._keeps_all:
            return ()
        sizes = "what people told of the sizes of baskets" if self.tiers else "what they may be"
        return (
            f"of a basket that holds more than {self.cap} symbols some are left out by chance; "
            f"supports are put right by {sizes}, and their errors count how far that is open",
        )

    @by_parameters
    def beyond_prediction(self) -> tuple[str, ...]:
        if self._keeps_all:
            return ()
        return (
            f"where most baskets hold more than {self.cap} items, errors are about twice as large",
        )

    def parameters(self) -> dict[str, Any]:
        stated: dict[str, Any] = {"gamma": str(Fraction(self.gamma)), "cap": self.cap}
        if self.buckets:
            stated |= {"buckets": self.buckets, "seeds": self.seeds, "pool": self.pool}
        if self.tiers:
            stated |= {"tiers": list(self.tiers)}
        if self.dealt:
            stated |= {"dealt": True}
        singles = tuple((item,) for item in range(self._items.size))
        if not self.candidates or (not self.buckets and self.candidates == singles):
            return stated
        return stated | {"candidates": [list(each) for each in self.candidates]}

    @by_parameters
    def details(self) -> Mapping[str, Any]:
        return {"candidates": list(self.labels)} if "candidates" in self.parameters() else {}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of item-set").fields()
        gamma, cap = given["gamma"].fraction(), given["cap"].whole(1, MOST_CAP)
        items = domain.private.attributes[0].size
        sets = _stated(given["candidates"], items) if "candidates" in given else ()
        told = given["tiers"].entries(MOST_TIERS) if "tiers" in given else ()
        tiers = tuple(each.whole(1, MOST_LABELS) for each in told)
        if "buckets" in given:
            buckets, seeds = (given[name].whole(1, 1 << 16) for name in ("buckets", "seeds"))
            pool = given["pool"].word()
            return cls(domain, gamma, cap, sets, buckets, seeds, pool, tiers)
        sets = sets or tuple((item,) for item in range(items))
        dealt = "dealt" in given and given["dealt"].flag()
        return cls(domain, gamma, cap, sets, tiers=tiers, dealt=dealt)

    # What is reported.

    @property
    def _parts(self) -> tuple[int, int]:
        gamma = Fraction(self.gamma)
        return gamma.numerator, gamma.denominator

    @property
    def total(self) -> int:
        """Ω, the weight of all symbols, the same for every basket."""
        a, b = self._parts
        if self.dealt:
            return a + b
        others = self.buckets - self.cap if self.buckets else self._symbol_count
        return self.cap * a + others * b

    @property
    def _symbol_count(self) -> int:
        """The itemsets asked about, and behind them the tiers."""
        return len(self.asked) + len(self.tiers)

    @cached_property
    def private_reports(self) -> Domain:
        taken = {attribute.name for attribute in self.domain if attribute.public}
        if self.dealt:
            asked = Category(_free("asked", taken), self.labels)
            return Domain((asked, Category(_free("answer", taken), ("yes", "no"))))
        if not self.buckets:
            own = set(self.labels)  # which items may have for a name
            symbols = (*self.labels, *(_free(each, own) for each in (*self.tier_labels, NONE)))
            return Domain((Category(_free("symbol", taken), symbols),))
        return Domain(
            (
                Numeric(_free("hash", taken), 0, self.seeds - 1),
                Numeric(_free("bucket", taken), 0, self.buckets - 1),
            )
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the candidates are called, each otherwise: an item may be called "a + b"."""
        names = self._items.labels
        found = [" + ".join(names[item] for item in each) for each in self.candidates]
        if len(set(found)) == len(found):
            return tuple(found)
        taken = {names[each[0]] for each in self.candidates if len(each) == 1}
        for place, each in enumerate(self.candidates):
            if len(each) > 1:
                found[place] = _free(found[place], taken)
                taken.add(found[place])
        return tuple(found)

    @property
    def tier_labels(self) -> tuple[str, ...]:
        """What the tiers are called."""
        ends = [f"to {end - 1}" for end in self.tiers[1:]] + ["or more"]
        return tuple(f"(holds {a} {end})" for a, end in zip(self.tiers, ends, strict=False))

    @property
    def _collide(self) -> Collide:
        (step,) = steps_of(self)
        assert isinstance(step, Collide)
        return step

    def steps(self) -> tuple[Step, ...]:
        a, b = self._parts
        how: dict[str, Any] = {"columns": (0,), "items": self._items.size, "a": a, "b": b}
        if self.dealt:
            questions = tuple(
                Symbol(reports=(1,), candidates=(each,), cap=1, **how) for each in self.candidates
            )
            even = tuple(np.diff(np.linspace(0, ONE, len(questions) + 1).astype(np.int64)).tolist())
            return (Deal(columns=(0,), reports=(0, 1), weights=even, questions=questions),)
        how |= {"cap": self.cap, "tiers": self.tiers or None}
        if not self.buckets:
            return (Symbol(reports=(0,), candidates=self.candidates, **how),)
        hashed = Collide(
            reports=(0, 1),
            candidates=self.candidates or None,
            buckets=self.buckets,
            pool=self.pool,
            seeds=self.seeds,
            **how,
        )
        return (hashed,)

    # What it says.

    def _tally(self) -> CellTally:
        return CellTally(tuple(attribute.cells() for attribute in self.private_reports))

    @property
    def asked(self) -> Candidates:
        """The itemsets that reports speak of: the candidates, or every item."""
        return self.candidates or tuple((item,) for item in range(self._items.size))

    @by_parameters
    def symbol_law(self) -> SymbolLaw:
        whole = not self.candidates
        own, other = self._chances
        slope = 0.0 if self.dealt else (1 - 2 * other) / (own - other)
        shown = own / len(self.asked) if self.dealt else own
        return SymbolLaw(
            self._tally(),
            self.asked,
            self.decoded,
            self.kept,
            len(self.asked) if self.dealt else self.cap,
            whole,
            slope,
            hits=self.hits,
            between=(shown / float(self.gamma), shown),
            tiers=self.tiers,
            full=self.full if self.tiers else None,
            most_counted=self.most_counted if self.buckets else None,
        )

    @property
    def _chances(self) -> tuple[float, float]:
        """How often a symbol is reported where it is own and kept, and where it is not own; where
        one is dealt, of those who are asked about it.
        """
        a, b = self._parts
        return a / self.total, 1 / self.buckets if self.buckets else b / self.total

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float] | None:
        if not self.buckets:  # a report is one symbol, which is counted anyhow
            return None
        own, _ = self._chances
        return np.full(rows_of(reports), own / self.seeds), own * self.buckets

    def kept(self, counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The estimated people who hold each itemset and whose basket kept it, and the variances,
        who keeps what counted as chance.
        """
        found, noise = self._shown(counts)
        return found[: len(self.asked)], noise[: len(self.asked)]

    def full(self, counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The estimated people whose basket is of each tier, and the variances."""
        found, noise = self._shown(counts)
        return found[len(self.asked) :], noise[len(self.asked) :]

    def _shown(
        self, counts: NDArray[Any], *, bounded: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The estimated people with each own symbol, and the variances."""
        people = float(np.sum(counts))
        own, other = self._chances
        if self.dealt:  # a binomial share of those who were asked about it
            asked = np.maximum(np.sum(counts, axis=1, dtype=np.float64), 1.0)
            yes = np.asarray(counts[:, 0] / asked)
            noise = (yes * (1 - yes) + 1 / asked) / asked
            scale = max(people, 1.0) / (own - other)
            return scale * (yes - other), noise * scale**2
        hits, lost = self._bounded_hits(counts) if bounded else (self._hits(counts), 1.0)
        found = (hits - people * other) / (own - other)
        shown = other + (own - other) * np.clip(found / max(people, 1), 0, 1)
        # One report more: of a rare itemset there may be none by chance, which is no certainty.
        noise = lost * (people * shown * (1 - shown) + 1) / (own - other) ** 2
        return found, noise + self._pool_noise(found, noise, people)

    def decoded(
        self, counts: NDArray[Any], *, bounded: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The estimated people who hold each itemset, and the variances, the people held fixed.
        Where gain is bounded, a report sent again and again counts a few times at most.
        """
        people = float(np.sum(counts))
        own, other = self._chances
        every, variance = self._shown(counts, bounded=bounded)
        if self.dealt:
            return every, variance
        kept = every[: len(self.asked)]
        share, doubt = self._left(every, variance, people)
        found = kept / share
        held = np.clip(found, 0, people)
        shown = share * own + (1 - share) * other
        noise = held * shown * (1 - shown) + (people - held) * other * (1 - other)
        lost = self._bounded_hits(counts)[1][: len(kept)] if bounded else 1.0
        noise = lost * (noise + 1) / ((own - other) * share) ** 2  # a report more, as above
        return found, noise + (doubt * found) ** 2 + self._pool_noise(found, noise, people)

    def hits(self, counts: NDArray[Any]) -> NDArray[Any]:  # (itemsets,)
        """How many reports each itemset's symbol had."""
        return self._hits(counts)[: len(self.asked)]

    def _hits(self, counts: NDArray[Any]) -> NDArray[Any]:  # (symbols,)
        """How many reports each symbol had."""
        if self.dealt:
            return np.asarray(counts, dtype=np.float64)[:, 0]
        if not self.buckets:
            return np.asarray(counts, dtype=np.float64).ravel()[:-1]
        hits = np.zeros(self._symbol_count)
        table = np.ascontiguousarray(counts, dtype=np.float64)
        if hits.size * self.seeds > SMALL_WORK:
            kernels = import_module("sfumato.mechanisms.hash_kernels")
            kernels.sum_hits(table, self._collide.polynomials.astype(np.uint64), self.buckets, hits)
            return hits
        seeds = np.arange(self.seeds)
        for symbol in range(hits.size):
            hits[symbol] = table[seeds, self._collide.hashed(np.array(symbol), seeds)].sum()
        return hits

    def most_counted(self, people: float) -> int:
        """How often one hash and bucket is counted at most where gain is bounded: if everybody held
        one item, fewer than one hash in twenty would show its bucket more often.
        """
        from scipy.stats import poisson

        return int(poisson.ppf(0.95, people * self._chances[0] / self.seeds)) + 1

    def _bounded_hits(self, counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """How many reports each symbol had, a hash and bucket counted a few times at most, and by
        how much that raises the variance: right-censored Poisson counts X, their rate x such that
        E min(X, c) = x·P(X < c−1) + c·P(X ≥ c) is the mean over hashes.
        """
        most = self.most_counted(float(np.sum(counts)))
        mean = self._hits(np.minimum(counts, most)) / self.seeds
        mean = np.clip(mean, 1e-9, most - 1 / self.seeds)
        rate = mean.copy()
        for _ in range(NEWTON):  # it is concave in x, and grows by P(X < c)
            capped = most * (1 - _fewer(most, rate))
            rate += (mean - capped - rate * _fewer(most - 1, rate)) / _fewer(most, rate)
        square = rate**2 * _fewer(most - 2, rate) + rate * _fewer(most - 1, rate)
        square += most**2 * (1 - _fewer(most, rate))
        lost = (square - mean**2) / (rate * _fewer(most, rate) ** 2)
        return self.seeds * rate, np.maximum(lost, 1.0)

    def _left(
        self, every: NDArray[Any], variance: NDArray[Any], people: float
    ) -> tuple[NDArray[Any] | float, NDArray[Any] | float]:
        """What part of all that is held a cap leaves, and the error of that for each itemset, as a
        part of it.

        How much large baskets hold is told by their tiers. A basket that holds an itemset holds the
        candidates that are parts of it, so that a cap takes more of it.
        """
        number = len(self.asked)
        if self._keeps_all or not people:
            return 1.0, 0.0
        kept, noise = every[:number], float(variance[:number].sum()) / people**2
        seen = float(np.clip(kept.sum() / people, 0, self.cap))
        told = every[number:] / people, variance[number:] / people**2
        if self.tiers:
            sizes = SizeBins.told(self.tiers, *told, number)
        else:
            sizes = SizeBins.untold(kept / people, self.cap, number)
        many, place = self._implied
        left, doubt = sizes.left(seen, noise, many)
        doubts = np.hypot(doubt, sizes.heterogeneity(left, seen))
        return _at_most(kept, left[place], doubts[place], people * sizes.large)

    @cached_property
    def _implied(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """How many candidates a basket that holds each holds at least, by its single items and
        pairs: the different numbers, and the place of each candidate's.
        """
        asked = self._symbols
        parts = [
            {each, *combinations(each, 1), *(combinations(each, 2) if len(each) > 2 else ())}
            for each in self.asked
        ]
        found = [sum(part in asked for part in each) for each in parts]
        return np.unique(found, return_inverse=True)

    def _pool_noise(self, found: NDArray[Any], noise: NDArray[Any], people: float) -> float:
        """What a pool of hashes, and not a fresh one a person, adds: Σx² over its hashes and
        buckets, the squares less what noise adds to them.
        """
        if not self.buckets or not people:
            return 0.0
        squares = max(float((found**2 - noise).sum()), float(found.max()) ** 2)
        return squares / (self.buckets * self.seeds)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        items = tuple(sorted(part.item for part in cells if part.item is not None))
        if items not in self._symbols or len(cells) > 1:
            raise Unanswerable(
                f"a report says nothing of {len(cells)} items one by one",
                hint="ask about one item, or mine the candidates",
            )
        place = self._symbols[items]
        shape = tuple(attribute.size for attribute in self.private_reports)
        own, other = self._chances

        def decode(counts: NDArray[Any], bounded: bool = False) -> tuple[float, float]:
            found, variances = self.decoded(counts, bounded=bounded)
            return float(found[place]), float(variances[place])

        told = np.zeros(shape, dtype=bool)
        if self.dealt:
            told[place, 0], own, other = True, own / len(self.asked), other / len(self.asked)
        elif not self.buckets:
            told[place] = True
        robust = partial(decode, bounded=True) if self.buckets else None
        channel = Decoded(shape, told, own, other, decode, robust, self._keeps_all, self._assumes)
        return Observation(tuple(cells), self._tally(), channel)

    @property
    def _keeps_all(self) -> bool:
        """Whether no basket can be above the cap."""
        return self.dealt or self.cap >= len(self.asked)

    @property
    def _assumes(self) -> str | None:
        """What undoing the cap supposes beyond the reports."""
        if self._keeps_all:
            return None
        return LIKE_OTHERS if self.tiers else AS_USUAL

    @cached_property
    def _symbols(self) -> dict[tuple[int, ...], int]:
        return {each: place for place, each in enumerate(self.asked)}

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """Of one item: the variance of the share that holds it, were no basket capped."""
        if len(cells) > 1 or cells[0].item is None or is_public(self.domain, cells[0]):
            return None
        own, other = self._chances
        held = float(shares[1])
        if self.dealt:
            shown = other + (own - other) * held
            noise = len(self.asked) * shown * (1 - shown)
        else:
            noise = held * own * (1 - own) + (1 - held) * other * (1 - other)
        return float((weights[1] - weights[0]) ** 2 * noise / (own - other) ** 2)

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """What a report says of one item: whether its symbol was reported."""
        if len(cells) > 1 or cells[0].item is None or (cells[0].item,) not in self._symbols:
            raise Unanswerable(
                f"a report says nothing of {len(cells)} items one by one",
                hint="ask about one item",
            )
        groups = np.asarray(every_cell(cells)[0] if within is None else within[0])
        shown = [
            np.asarray(reports[self.reports.index(a.name)]).astype(np.int64)
            for a in self.private_reports
        ]
        own, other = self._chances
        symbol = self._symbols[(cells[0].item,)]
        if self.buckets:
            hit = shown[1] == self._collide.hashed(np.array(symbol), shown[0])
        else:
            hit = shown[0] == symbol
        chance = groups @ np.array([other, own])  # of a hit, group by group
        if self.dealt:
            said = safe_log(np.where((shown[1] == 0)[:, None], chance, 1 - chance))
            return np.where(hit[:, None], said, 0.0)
        return safe_log(np.where(hit[:, None], chance, 1 - chance))


@dataclass(frozen=True, repr=False)
class ItemSetInRounds(ItemSet):
    """Item-set asked in rounds: the first group for any item, the others for candidates.

    A rare candidate's share has the variance (d + mγ)/(n(γ−1)²) in each of the later rounds; what
    many hold has more, each of them reporting it by chance. A single item is told by the first
    round beside.
    """

    in_rounds = True

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """The variance of the share that holds an itemset, were no basket capped and nothing
        predicted of it.
        """
        if any(part.item is None or is_public(self.domain, part) for part in cells):
            return None
        gamma, held = float(self.gamma), float(shares.ravel()[-1])
        total = how_many(WANTED, gamma) + CAP * gamma
        own, other = gamma / total, 1 / total
        noise = held * own * (1 - own) + (1 - held) * other * (1 - other)
        told = sum(SHARES[1:]) * (own - other) ** 2 / noise
        if len(cells) == 1:
            alone = super().predicted_variance(cells, weights, shares)
            told += SHARES[0] / alone if alone else 0.0
        return float((weights.ravel()[-1] - weights.ravel()[0]) ** 2 / told)


def how_many(wanted: int, gamma: float) -> int:
    """The candidates of a later round: more where each costs little beside what is paid anyway."""
    return round(2 * wanted + 3 * min(gamma, PAID))


def _fewer(count: int, rate: NDArray[Any]) -> NDArray[Any]:
    """P(X < count) of a Poisson variable."""
    from scipy.special import pdtr

    return np.maximum(pdtr(count - 1, rate), 1e-9) if count > 0 else np.zeros_like(rate)


def _telling(cap: int | None, usual: int) -> int:
    """The cap that was asked for, so large that baskets beyond it can tell how much they hold."""
    if cap is None:
        return usual
    return max(cap, LEAST_CAP) if cap > 0 else cap


def _at_most(
    kept: NDArray[Any], left: NDArray[Any], doubts: NDArray[Any], large: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What a cap left of each itemset, and how far that is open. It took nothing but from large
    baskets: where these are fewer than what it is said to have taken, it took some part of them.
    """
    lost = kept * (1 / left - 1)
    over = lost > large
    if not over.any():
        return left, doubts
    some = large * (1 + large / np.where(over, lost, 1.0)) / 2
    parts = np.where(over, kept / np.where(over, kept + some, 1.0), left)
    return parts, np.where(over, 1 - parts, doubts)


def simple(gamma: Fraction) -> Fraction:
    """The largest fraction, not above gamma, with a small denominator."""
    bounded = min(gamma, Fraction(MOST_GAMMA))
    kept = simple_below(bounded, max(1, min(FINENESS, MOST_WEIGHT // math.ceil(bounded))))
    if kept <= 1 and kept != bounded:
        raise ParameterError(f"gamma={float(gamma):g} is too close to 1 for item-set")
    return kept


def best_buckets(cap: int, gamma: float) -> int:
    """The number of buckets with the least variance: m(1+c), c = (γ+√(γ²+8γ))/2."""
    return max(cap + 1, round(cap * (1 + (gamma + math.sqrt(gamma**2 + 8 * gamma)) / 2)))


def collision_variance(cap: int, buckets: int, gamma: float) -> float:
    """What one person adds to the variance of a share under collision."""
    weight = cap * gamma + buckets - cap
    return (buckets - 1) * weight**2 / ((buckets - cap) ** 2 * (gamma - 1) ** 2)


def direct_variance(cap: int, candidates: int, gamma: float) -> float:
    """What one person adds to the variance of a share where candidates are asked directly."""
    return (candidates + cap * gamma) / (gamma - 1) ** 2


def _stated(given: Untrusted, items: int) -> Candidates:
    """Candidates as a description lists them."""
    sets = given.entries(MOST_LABELS)
    return tuple(
        tuple(item.whole(0, items - 1) for item in each.entries(MOST_CAP)) for each in sets
    )


def check_candidates(candidates: Candidates, items: Items) -> None:
    """Refuse candidates that are not different sets of the universe's items."""
    if len(candidates) > MOST_LABELS:
        raise ParameterError(f"{len(candidates):,} candidates; at most {MOST_LABELS:,} are taken")
    for each in candidates:
        if not each or list(each) != sorted(set(each)) or not 0 <= each[0] <= each[-1] < items.size:
            raise ParameterError(
                f"candidate {list(each)} is no set of the universe's {items.size} items"
            )
    if len(set(candidates)) < len(candidates):
        raise ParameterError("a candidate is listed twice")


def read_candidates(path: str | Path, items: Items) -> Candidates:
    """The itemsets of a file, a line each, items parted by commas; a name that has a comma itself
    stands in double quotes.
    """
    text = read_text(Path(path), f"candidates file '{path}'", MOST_LIST_BYTES)
    codes = {label: code for code, label in enumerate(items.labels)}
    found: dict[tuple[int, ...], None] = {}
    lines = text.splitlines()
    if len(lines) > MOST_LABELS:
        raise FileError(f"candidates file '{path}' has more than the {MOST_LABELS:,} lines read")
    for number, line in enumerate(lines, 1):
        names = _parted(line, f"line {number} of candidates file '{path}'")
        strange = [name for name in names if name not in codes]
        if strange:
            words = strange[0].split()
            known = all(word in codes for word in words)
            raise FileError(
                f"line {number} of candidates file '{path}': '{strange[0]}' is not in the universe "
                f"of {items.size} items",
                hint=f"did you mean {','.join(words)}? Items are parted by commas, not blanks"
                if known
                else "name items as the baskets do, parted by commas",
                line=number,
            )
        if names:
            found[tuple(sorted({codes[name] for name in names}))] = None
    if not found:
        raise FileError(f"candidates file '{path}' names no itemset")
    return tuple(found)


def _parted(line: str, where: str) -> list[str]:
    """The names on a line, parted by commas."""
    try:
        words = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error as error:
        raise FileError(f"{where} is not readable: {error}") from None
    return [name for word in words if (name := word.strip())]


def _free(name: str, taken: set[str]) -> str:
    """A name that none of these is."""
    return name if name not in taken else _free(f"{name}_", taken)
