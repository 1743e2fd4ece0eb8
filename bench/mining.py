"""Mining beside other libraries, in one run: CPU seconds, and ours as a share of theirs.

    python -m bench.mining [--data DIR] [--quick]

Peers that are not installed are left out. Every peer gets its data in the form it takes (lists of
items, a data frame, a file); making that form is not timed, except where it is said (rusket's
encoding). Ours is timed twice: from packed columns, and with the packing.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.data_sets import census
from sfumato.bits import Bits
from sfumato.datasets.quest import Quest
from sfumato.domain import Domain, Items, Numeric
from sfumato.evaluate import itemset_errors
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.mine.rules import association_rules
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, perturb
from sfumato.table import Table

KEEP = 0.9
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, eq=False)
class Baskets:
    """True baskets in the forms that the libraries take."""

    name: str
    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    universe_size: int

    def pack(self) -> Bits:
        """Packed columns."""
        return Bits.from_csr(self.offsets, self.items, self.universe_size)

    @cached_property
    def bits(self) -> Bits:
        """Packed columns, made once."""
        return self.pack()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Items by number."""
        return tuple(map(str, range(self.universe_size)))

    @cached_property
    def lists(self) -> list[list[int]]:
        """One list of items a basket."""
        return [part.tolist() for part in np.split(self.items, self.offsets[1:-1])]

    def repeated(self, times: int) -> Baskets:
        """Every basket so many times."""
        offsets, items = Bits.concatenate([self.bits] * times).to_csr()
        return Baskets(f"{self.name} ×{times}", offsets, items, self.universe_size)

    def perturbed(self, seed: int = 1) -> Table:
        """A MASK release with p = 0.9."""
        mechanism = BitFlip(self.domain, KEEP, KEEP)
        return perturb(self.truth, mechanism, seeded(seed)).table

    @property
    def truth(self) -> Table:
        """The true baskets as a table."""
        return Table(self.domain, (self.bits,))

    @property
    def domain(self) -> Domain:
        """The universe of items."""
        return Domain((Items("items", self.names),))


def read_fimi(path: Path) -> Baskets:
    """A FIMI file."""
    with gzip.open(path, "rt") as file:
        lines = [line.split() for line in file]
    ids, codes = np.unique(np.concatenate(lines).astype(np.int64), return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    return Baskets(path.name.removesuffix(".dat.gz"), offsets, codes.astype(np.int32), len(ids))


def read_adult(path: Path) -> Baskets:
    """Adult as the R package arules codes it: 115 items, income of the training rows only."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    cuts: dict[str, list[float]] = {"age": [15, 25, 45, 65], "hours_per_week": [0, 25, 40, 60]}
    for name in ("capital_gain", "capital_loss"):
        values = np.array([float(row[name]) for row in rows])
        cuts[name] = [-np.inf, 0, float(np.median(values[values > 0]))]
    columns = []
    for name in rows[0]:
        if name in ("fnlwgt", "education_num", "split"):
            continue
        column = np.array([row[name] for row in rows])
        if name == "income":
            column = np.where([row["split"] == "train" for row in rows], column, "?")
        if name in cuts:
            column = np.searchsorted(cuts[name], column.astype(float)).astype(str)
        columns += [column == value for value in np.unique(column) if value != "?"]
    bits = Bits.from_dense(np.stack(columns, axis=1))
    return Baskets("adult one-hot", *bits.to_csr(), bits.items)


def mine_truth(truth: Table, support: float) -> Itemsets:
    """Mine from a new source, since a source remembers what it counted."""
    return frequent_itemsets(Exact(truth), support)


def mine_reports(release: Table, support: float, errors: float = 2.0) -> Itemsets:
    """Mine from a new source."""
    return frequent_itemsets(Release.of(release), support, prune_errors=errors)


def cpu_seconds(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The least CPU time of some runs, all threads together, and what the last run gave."""
    best, result = np.inf, None
    for _ in range(times):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return float(best), result


def pyfim(baskets: Baskets, support: float) -> Callable[[], int]:
    """Christian Borgelt's FP-growth in C."""
    import fim

    lists = baskets.lists
    return lambda: len(fim.fpgrowth(lists, target="s", supp=100 * support, report="a"))


def mlxtend(baskets: Baskets, support: float) -> Callable[[], int]:
    """FP-growth in Python, from a sparse data frame."""
    import pandas
    from mlxtend.frequent_patterns import fpgrowth
    from scipy.sparse import csr_matrix

    ones = np.ones(len(baskets.items), dtype=bool)
    shape = (len(baskets.offsets) - 1, baskets.universe_size)
    frame = pandas.DataFrame.sparse.from_spmatrix(
        csr_matrix((ones, baskets.items, baskets.offsets), shape)
    )
    frame.columns = list(baskets.names)
    return lambda: len(fpgrowth(frame, support))


def efficient_apriori(baskets: Baskets, support: float) -> Callable[[], int]:
    """Apriori in Python, from lists."""
    from efficient_apriori import itemsets_from_transactions

    lists = baskets.lists
    return lambda: sum(
        map(len, itemsets_from_transactions(lists, support, max_length=30)[0].values())
    )


def pami(baskets: Baskets, support: float) -> Callable[[], int]:
    """FP-growth in Python, from a file (which it reads itself)."""
    from PAMI.frequentPattern.basic.FPGrowth import FPGrowth

    path = Path(tempfile.mkdtemp()) / "baskets.tsv"
    path.write_text("\n".join("\t".join(map(str, basket)) for basket in baskets.lists))

    def mine() -> int:
        with contextlib.redirect_stdout(io.StringIO()):
            return count()

    def count() -> int:
        miner = FPGrowth(
            iFile=str(path), minSup=int(np.ceil(support * len(baskets.lists))), sep="\t"
        )
        miner.mine()
        return len(miner.getPatterns())

    return mine


def rusket(baskets: Baskets, support: float) -> Callable[[], int]:
    """FP-growth in Rust, with its own encoding of lists."""
    from rusket import fpgrowth, from_transactions

    lists = [list(map(str, basket)) for basket in baskets.lists]
    return lambda: len(fpgrowth(from_transactions(lists), min_support=support))


PEERS: tuple[Callable[[Baskets, float], Callable[[], int]], ...] = (
    pyfim,
    rusket,
    mlxtend,
    efficient_apriori,
    pami,
)


def exact_against_peers(cases: Iterator[tuple[Baskets, float]], slow: bool) -> None:
    """Exact data: ours against every peer that is installed."""
    print("\nexact baskets: CPU seconds (and ours, packing included, as a share of theirs)")
    for baskets, support in cases:
        mining, found = cpu_seconds(partial(mine_truth, baskets.truth, support), 3)
        packing, _ = cpu_seconds(baskets.pack, 3)
        ours = mining + packing
        print(
            f"  {baskets.name} at {support:.2%}: {len(found)} itemsets; ours {mining:.3f} + "
            f"packing {packing:.3f}"
        )
        for peer in PEERS if slow else PEERS[:2]:
            _print_peer(peer, baskets, support, ours, len(found))


def _print_peer(
    peer: Callable[[Baskets, float], Callable[[], int]],
    baskets: Baskets,
    support: float,
    ours: float,
    expected: int,
) -> None:
    try:
        work = peer(baskets, support)
    except ImportError:
        print(f"    {peer.__name__:18} not installed")
        return
    seconds, number = cpu_seconds(work, 3 if peer in PEERS[:2] else 1)
    remark = "" if number == expected else f"  finds {number}"
    print(f"    {peer.__name__:18} {seconds:8.3f}   ours/theirs {ours / seconds:6.3f}{remark}")


def perturbed_against_pyfim(baskets: Baskets, support: float, target: float) -> None:
    """MASK reports (p = 0.9) mined by us against the truth mined by pyfim."""
    release = baskets.perturbed()
    truth, _ = cpu_seconds(pyfim(baskets, support), 3)
    print(
        f"  {baskets.name} at {support:.2%}: pyfim on the truth {truth:.3f} s; target ours/theirs "
        f"<= {target:g}"
    )
    for errors in (0.0, 2.0):
        ours, found = cpu_seconds(partial(mine_reports, release, support, errors), 3)
        lengths = " ".join(map(str, found.by_length().values()))
        print(
            f"    prune_errors={errors:g}: ours {ours:.3f} s, ours/theirs {ours / truth:.2f}; "
            f"itemsets {lengths}"
        )


def gamma_diagonal_against_truth(directory: Path, times: int) -> None:
    """FRAPP's claim: mining gamma-diagonal records costs what mining true ones costs."""
    records = census(directory)
    people = Table.from_arrow(records.table, records.domain)
    domain = people.domain.binned()
    cells = [
        attribute.cells_by_cuts(attribute.cuts) if isinstance(attribute, Numeric) else None
        for attribute in people.domain
    ]
    once = [
        part.assign(codes) if part else codes
        for part, codes in zip(cells, people.columns, strict=True)
    ]
    truth = Table(domain, tuple(np.tile(np.asarray(codes), times) for codes in once))
    release = perturb(truth, GammaDiagonal(domain, 19), seeded(1)).table
    exact, _ = cpu_seconds(partial(mine_truth, truth, 0.02), 15)
    print(f"  CENSUS ×{times} at 2 %: the truth {exact:.3f} s; target reports/truth <= 1.2")
    for errors in (0.0, 2.0):
        ours, found = cpu_seconds(partial(mine_reports, release, 0.02, errors), 15)
        print(
            f"    prune_errors={errors:g}: {ours:.3f} s, reports/truth {ours / exact:.2f}; "
            f"{len(found)} itemsets"
        )


def rules_against_mlxtend(baskets: Baskets, support: float) -> None:
    """Rules from the same itemsets."""
    found = mine_truth(baskets.truth, support)
    seconds, rules = cpu_seconds(lambda: association_rules(found, min_confidence=0.5), 3)
    noisy = mine_reports(baskets.perturbed(), support)
    with_errors, noisy_rules = cpu_seconds(lambda: association_rules(noisy, min_confidence=0.5), 3)
    print(
        f"  {baskets.name} at {support:.0%}, confidence 50 %: {len(rules)} rules in {seconds:.3f} "
        "s; from MASK reports,"
    )
    print(f"    with standard errors, {len(noisy_rules)} in {with_errors:.3f} s")
    try:
        from mlxtend.frequent_patterns import association_rules as theirs
    except ImportError:
        return
    frame = found.to_pandas()
    peer, table = cpu_seconds(lambda: theirs(frame, metric="confidence", min_threshold=0.5), 1)
    print(f"    mlxtend {peer:.3f} s for {len(table)} rules, ours/theirs {seconds / peer:.3f}")


def accuracy(baskets: Baskets, support: float, seeds: int) -> None:
    """Support error by length over seeds, beside the figures measured before (docs/theory.md)."""
    truth = mine_truth(baskets.truth, support)
    errors: dict[int, list[float]] = {}
    for seed in range(seeds):
        for line in itemset_errors(mine_reports(baskets.perturbed(seed), support), truth):
            if line.support_error is not None:
                errors.setdefault(line.length, []).append(line.support_error)
    figures = "  ".join(
        f"{np.mean(values):.2f} ({np.std(values):.2f})" for values in errors.values()
    )
    print(
        f"  {baskets.name} at {support:.2%}, {seeds} seeds, support error by length in per cent: "
        f"{figures}"
    )
    print("    the sketch: 6.24 (.34)  4.29 (.18)  2.73 (.28)  2.52 (.70)")


def memory(baskets: Baskets, support: float) -> None:
    """Memory that mining takes beside the bitmaps."""
    release = baskets.perturbed()
    tracemalloc.start()
    mine_reports(release, support)
    extra = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    (bits,) = release.columns
    assert isinstance(bits, Bits)
    print(
        f"  {baskets.name}: bitmaps {bits.words.nbytes / 2**20:.0f} MB, mining takes {extra:.0f} "
        "MB more; target: as much"
    )


def warm_up(baskets: Baskets) -> Itemsets:
    """Load the compiled loops, so that no measurement pays for them."""
    import sfumato.counting.kernels  # noqa: F401

    return mine_reports(baskets.perturbed(), 0.05)


def main() -> None:
    """Print every comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("SFUMATO_DATA") or ROOT.parent / "shared" / "data",
    )
    parser.add_argument(
        "--quick", action="store_true", help="only the fast peers, no million baskets, two seeds"
    )
    options = parser.parse_args()
    bms, t10, retail = (
        read_fimi(Path(options.data, f"{n}.dat.gz"))
        for n in ("bms-webview-1", "t10i4d100k", "retail")
    )
    adult = read_adult(Path(options.data, "adult.csv.gz"))
    warm_up(bms)
    cases = [(bms, 0.0025), (t10, 0.0025), (retail, 0.003), (adult, 0.02)]
    exact_against_peers(iter(cases), slow=not options.quick)
    print("\nMASK reports, p = 0.9, against pyfim's FP-growth on the truth")
    bms10 = bms.repeated(10)
    perturbed_against_pyfim(bms10, 0.0025, 1)
    perturbed_against_pyfim(adult, 0.02, 5)
    if not options.quick:
        quest = Quest.from_name("T10.I4.D1M.N1K").generate(seeded(1))
        million = Baskets("T10.I4.D1M.N1K", quest.offsets, quest.items, quest.universe_size)
        perturbed_against_pyfim(million, 0.0025, 1)
        print("\nmemory")
        memory(million, 0.0025)
    print("\ngamma-diagonal records against true ones, by the same code")
    gamma_diagonal_against_truth(Path(options.data), 50)
    print("\nrules")
    rules_against_mlxtend(adult, 0.1)
    print("\naccuracy")
    accuracy(bms10, 0.0025, 2 if options.quick else 10)


if __name__ == "__main__":
    main()
