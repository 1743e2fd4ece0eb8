"""Long work tells a terminal how much of it is done, and a pipe nothing."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from threading import Event
from time import sleep

import pyarrow as pa
import pytest

from sfumato.api import perturb
from sfumato.cli.printing import progress_bar
from sfumato.datasets.survey import survey
from sfumato.engines import duckdb
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.model.fitted import fit_release
from sfumato.progress import Progress, silent
from sfumato.publish.owned import records_of
from sfumato.randomness import seeded
from sfumato.table import delimited, propose, reader_of, save


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and keeps what it was shown."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar() as tell:
        tell("counting", None)
        for share in (0.0, 0.25, 0.5):
            tell("growing the tree", share)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "growing the tree …" in shown and "50%" in shown
    assert re.search(r"\d:\d\d:\d\d|-:--:--", shown)


def test_time_left_is_told_anew_for_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before was done, and left no time; what follows takes its own."""
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar() as tell:
        for words, share in (("reading", 0.5), ("reading", 1.0), ("growing the tree", 0.5)):
            tell(words, share)
            sleep(0.2)
        tell("judging it", None)
        sleep(0.2)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    growing, _, judging = shown.rpartition("growing the tree …")[2].partition("judging it …")
    assert "50%" in growing and "0:00:00" not in growing
    assert "%" not in judging and "0:00:00" not in judging


def test_a_pipe_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as tell:
        tell("growing the tree", 0.5)
    assert capsys.readouterr().err == ""


def told_to(shares: list[float]) -> Progress:
    """What keeps the shares that it hears."""
    return lambda _, share: None if share is None else shares.append(share)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.parquet"])
def test_reading_tells_how_much_of_the_file_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 14)  # Arrow reads some blocks ahead
    incomes = pa.table(
        {"income": seeded(1).below(10**9, 100_000), "town": ["Lyon", "Turin"] * 50_000}
    )
    save(records_of(incomes), tmp_path / name)
    schema = propose(tmp_path / name).domain
    for read in (propose, records_of, lambda given: given.table(schema)):
        shares: list[float] = []
        reader = reader_of(tmp_path / name)
        reader.tell = told_to(shares)
        read(reader)
        assert shares == sorted(shares)
        assert 0 < shares[0] < 0.9 and shares[-1] == pytest.approx(1, abs=0.05)


def test_fitting_tells_which_part_of_the_pairs_and_sets_is_fitted() -> None:
    people, schema = survey(20_000, seeded(1))
    release = perturb(people, schema=schema, gamma=19, rng=seeded(2))
    heard: list[tuple[str, float | None]] = []
    model = fit_release(release, tell=lambda *told: heard.append(told))
    frequent_itemsets(model, 0.3, max_length=2)
    fitted = [share for words, share in heard if words == "fitting 45 pairs of columns"]
    assert fitted == [place / 45 for place in range(45)]
    sets = [share for words, share in heard if words.startswith("itemsets over 36 sets")]
    assert sets == [place / 36 for place in range(36)]  # the pairs of what is frequent


class Counting:
    """A connection that says how far it is, as DuckDB's does: -1 where it does not know."""

    def __init__(self, over: Event) -> None:
        self.percents, self.over = [-1.0, 25.0, 50.0], over

    def query_progress(self) -> float:
        if len(self.percents) == 1:
            self.over.set()
        return self.percents.pop(0)


def test_duckdb_tells_how_much_it_has_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb, "PROGRESS_SECONDS", 0.001)
    heard: list[float | None] = []
    over = Event()
    duckdb._listen(Counting(over), lambda _, share: heard.append(share), over)
    assert heard == [None, 0.25, 0.5]

    release = perturb(survey(50_000, seeded(1))[0], gamma=19, rng=seeded(2))
    release.save(tmp_path / "release.parquet")
    counts = []
    for tell in (silent, lambda *_: heard.append(0.0)):
        reader = reader_of(tmp_path / "release.parquet")
        reader.tell = tell
        relation = duckdb.file_relation(reader, release.mechanism.reports)
        counts.append(relation.fetch("SELECT COUNT(*) AS n FROM release").to_pylist())
    assert counts == [[{"n": 50_000}]] * 2
