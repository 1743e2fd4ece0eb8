"""Perturb, query and mine two million rows with a local Spark, in bounded memory.

    python -m bench.spark [--rows N] [--quick] [--perturb]

The rows are made inside Spark. What is stated: wall seconds, CPU seconds of all processes together
(the ratio to the identity and the core-hours are of these, which other work on the machine moves
less), and the peak resident memory of the driver's Python, of the JVM (which in local mode is
driver and executors in one, with a heap of 1 GB) and of the largest Python worker. A tenth of the
rows goes first, which warms the session; if memory grew with the rows, the two lines would show it.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines.spark import perturb_frame, spark_session
from sfumato.engines.spark.spark_counter import open_with_spark
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.retention import Retention
from sfumato.mine.cube import query
from sfumato.mine.itemsets import frequent_itemsets

ROWS, QUICK_ROWS, PARTITIONS, CORES = 2_000_000, 500_000, 16, 2
TICKS = os.sysconf("SC_CLK_TCK")  # of a second, in which processes are told what they took
RECORDS = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 15, 94, cuts=(25, 35, 45, 55, 65, 75)),
        Category("region", ("north", "east", "south", "west")),
        Category("smoker", ("no", "yes")),
    )
)
COLUMNS = (
    "IF(pmod(hash(id, 1), 100) < 48, 'F', 'M') AS sex",
    "15 + pmod(hash(id, 2), 80) AS age",
    "element_at(array('north', 'east', 'south', 'west'), 1 + pmod(hash(id, 3), 4)) AS region",
    "IF(pmod(hash(id, 4), 100) < 15 + pmod(hash(id, 1), 2) * 10, 'yes', 'no') AS smoker",
)
BASKETS = Domain((Items("items", tuple(map(str, range(1, 21)))),))
BASKET_COLUMN = (
    "filter(sequence(1, 20), item -> pmod(hash(id, item), 100) < 60 - 2 * item) AS items"
)
QUESTION = (
    "SELECT region, COUNT(*), AVG(age) FROM t WHERE age BETWEEN 30 AND 59 AND smoker = "
    "'yes' GROUP BY region"
)


@dataclass
class Watch:
    """The largest resident memory of each kind of process below this one, looked at ten times a
    second.
    """

    peaks: dict[str, int] = field(default_factory=dict)  # MB
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> Watch:
        """Begin to look."""
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def stop(self) -> dict[str, int]:
        """What was found, the driver's own Python too."""
        self._stop.set()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        return {"driver's Python": own, **self.peaks}

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            for name, size in _children():
                self.peaks[name] = max(self.peaks.get(name, 0), size)


def _children() -> list[tuple[str, int]]:
    """The processes below this one: what they are, and their peak resident memory in MB."""
    return [
        ("JVM" if facts["program"] == "java" else "a worker", int(facts.get("VmHWM", "0")) >> 10)
        for facts in _below().values()
    ]


def _below() -> dict[int, dict[str, str]]:
    """What is said of each process below this one."""
    status = {
        int(path.name): _status(path) for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    found, waiting = dict[int, dict[str, str]](), [os.getpid()]
    while waiting:
        parent = waiting.pop()
        below = [pid for pid, facts in status.items() if facts.get("PPid") == str(parent)]
        waiting += below
        found |= {pid: status[pid] for pid in below}
    return found


def cpu_seconds() -> float:
    """What this process and all below it have taken so far, those that have ended too."""
    ticks = 0
    for pid in (os.getpid(), *_below()):
        try:
            facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, facts[11:15]))  # its own, and those of the children it has buried
    return ticks / TICKS


def _status(path: Path) -> dict[str, str]:
    try:
        # Before its memory: until it runs a program of its own, what the JVM forks has the JVM's.
        program = (path / "exe").readlink().name
        return {"program": program} | dict(
            re.findall(r"^(PPid|VmHWM):\s+(\S+)", (path / "status").read_text(), re.MULTILINE)
        )
    except OSError:
        return {}


def timed(label: str, rows: int, work: Callable[[], Any]) -> Any:
    """Run, and print how long it took."""
    start, cpu = time.perf_counter(), cpu_seconds()
    result = work()
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    print(
        f"  {label:<34}{seconds:8.1f} s{cpu:8.1f} CPU-s{rows / seconds / 1e6:10.2f} million rows/s",
        flush=True,
    )
    return result


def seconds_of(label: str, rows: int, work: Callable[[], Any]) -> float:
    """Run, print how long it took, and give its CPU seconds."""
    start = cpu_seconds()
    timed(label, rows, work)
    return cpu_seconds() - start


def unchanged(people: Any, path: str) -> None:
    """The least that any work on Arrow batches costs: every batch as it came, written."""
    people.mapInArrow(lambda batches: batches, people.schema).write.parquet(path)


def measure_perturbing(session: Any, rows: int, folder: Path) -> str:
    """Perturb so many rows beside an identity of them; where the shuffled ones are."""
    print(f"{rows:,} rows", flush=True)
    people = session.range(0, rows, 1, PARTITIONS).selectExpr(*COLUMNS)
    names = ("kept", "same", "plain")
    kept, same, plain = (str(folder / f"{name}-{rows}.parquet") for name in names)
    floor = seconds_of("identity mapInArrow, written", rows, lambda: unchanged(people, same))
    noise = Retention(RECORDS, 0.5)
    drawn = seconds_of(
        "perturb records, order kept",
        rows,
        lambda: perturb_frame(people, plain, noise, schema=RECORDS, keep_order=True),
    )
    spent = seconds_of(
        "perturb records, shuffled",
        rows,
        lambda: perturb_frame(people, kept, noise, schema=RECORDS),
    )
    print(
        f"  times the identity: {drawn / floor:.2f} with the order kept, {spent / floor:.2f} "
        f"shuffled; {spent / rows * 1e9 / 3600:.1f} core-hours for a billion rows",
        flush=True,
    )
    return kept


def measure_asking(session: Any, rows: int, kept: str, folder: Path) -> None:
    """Query and mine what was perturbed, and baskets."""
    masked = str(folder / f"masked-{rows}.parquet")
    timed(
        "query: WHERE, GROUP BY, AVG", rows, lambda: query(open_with_spark(session, kept), QUESTION)
    )
    timed(
        "mine records, support 2 %",
        rows,
        lambda: frequent_itemsets(open_with_spark(session, kept), 0.02),
    )
    baskets = session.range(0, rows // 5, 1, PARTITIONS).selectExpr(BASKET_COLUMN)
    timed(
        "perturb a fifth as many baskets",
        rows // 5,
        lambda: perturb_frame(baskets, masked, BitFlip(BASKETS, 0.9, 0.9)),
    )
    found = timed(
        "mine baskets, support 10 %",
        rows // 5,
        lambda: frequent_itemsets(open_with_spark(session, masked), 0.1),
    )
    print(f"  {len(found)} itemsets")


def main() -> None:
    """A tenth of the rows, then all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows")
    parser.add_argument("--perturb", action="store_true", help="ask nothing of what was perturbed")
    given = parser.parse_args()
    rows = QUICK_ROWS if given.quick else given.rows
    session = spark_session(
        f"local[{CORES}]", {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    )
    with tempfile.TemporaryDirectory() as folder:
        for number in (rows // 10, rows):
            watch = Watch().start()
            kept = measure_perturbing(session, number, Path(folder))
            if not given.perturb:
                measure_asking(session, number, kept, Path(folder))
            print(
                "  peak memory: "
                + ", ".join(f"{name} {size} MB" for name, size in watch.stop().items()),
                flush=True,
            )
    session.stop()


if __name__ == "__main__":
    main()
