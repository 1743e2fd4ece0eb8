"""The board: quick figures are always fresh, slow ones are shown of a moment ago."""

from __future__ import annotations

import threading
import time

from tests.collect.test_figures import reports_of, tally_of

from sfumato.collect import board as boards
from sfumato.collect.board import Board
from sfumato.collect.campaign_file import CampaignFile


def board_of(campaign_path) -> Board:
    campaign = CampaignFile.load(campaign_path).campaign
    return Board(campaign, tally_of(campaign.mechanism, reports_of(campaign.mechanism, 200)))


def test_quick_figures_are_those_of_all_reports(campaign_path):
    board = board_of(campaign_path)
    assert board.figures().reports == 200
    board.tally.add(reports_of(board.campaign.mechanism, 50, 7))
    assert board.figures().reports == 250
    same = board.figures()
    assert board.figures() == same


def test_slow_figures_keep_nobody_waiting_and_come(campaign_path, monkeypatch):
    board = board_of(campaign_path)
    first = board.figures()
    go, quick = threading.Event(), boards.figures_of

    def slow(campaign, tally):
        go.wait(30)
        return quick(campaign, tally)

    monkeypatch.setattr(boards, "figures_of", slow)
    board._seconds = 10.0
    board.tally.add(reports_of(board.campaign.mechanism, 50, 7))
    start = time.monotonic()
    assert [board.figures().reports for _ in range(3)] == [200] * 3
    assert board.figures().questions == first.questions and time.monotonic() - start < 5
    go.set()
    for _ in range(200):
        if board.figures().reports == 250:
            break
        time.sleep(0.05)
    assert board.figures().reports == 250
