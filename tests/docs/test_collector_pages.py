"""The collector's pages: what the build does not run is held against the program all the same."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path

import pytest
import typer.main

from docs_build.running import DOCS
from sfumato.cli import app
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.policy import Policy

PAGES = sorted((DOCS / "collector").glob("*.md"))
FENCED = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
RUN = {"sh", "python"}  # by the build
# html, js and csp in Chromium by tests/collect/browser/test_documents.py, the others here. What is
# for nginx and Caddy is read by those alone.
CHECKED = {"html", "js", "csp", "toml", "console", "ini", "nginx", "caddy"}
SURVEY = """
[[attribute]]
name = "smoker"
type = "category"
values = ["yes", "no"]
"""


def pieces(kind: str) -> list[str]:
    """The blocks of one kind on all pages."""
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    return [text for page in texts for found, text in FENCED.findall(page) if found == kind]


def commands() -> list[str]:
    """Every command of ours that is shown and not run."""
    lines = [line.strip() for text in pieces("console") for line in text.splitlines()]
    services = [line for text in pieces("ini") for line in re.sub(r"\\\n +", "", text).splitlines()]
    started = [line.partition("bin/")[2] for line in services if line.startswith("ExecStart=")]
    return [line for line in (*lines, *started) if line.startswith("sfumato ")]


def check_command(line: str) -> None:
    """Let the command line read its arguments, and do nothing."""
    _, name, *arguments = shlex.split(line)
    group = typer.main.get_command(app)
    with group.make_context("sfumato", [name]) as context:
        _, command, _ = group.resolve_command(context, [name])
        command.make_context(name, list(arguments), parent=context)


def test_every_block_is_run_or_checked() -> None:
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    kinds = {kind for text in texts for kind, _ in FENCED.findall(text)}
    assert kinds == RUN | CHECKED


@pytest.mark.parametrize("line", commands())
def test_a_command_that_is_shown_is_understood(line: str) -> None:
    check_command(line)


def test_a_command_that_does_not_exist_would_be_found() -> None:
    assert len(commands()) == 5
    with pytest.raises(Exception, match="worker"):
        check_command("sfumato serve c.toml --worker 4")


def test_the_policy_of_the_page_is_one(tmp_path: Path) -> None:
    _, text = sorted(pieces("toml"), key=len, reverse=True)
    (tmp_path / "policy.toml").write_text(text, encoding="utf-8")
    assert Policy.load(tmp_path / "policy.toml") == Policy(10, ("region",), 3.0)
    page = (DOCS / "collector" / "respondent.md").read_text(encoding="utf-8")
    assert f"| {Policy().at_most} | `--at-most" in page and f"| {Policy().budget:g} | `--b" in page


def test_the_campaign_file_of_the_page_is_one(tmp_path: Path) -> None:
    text, _ = sorted(pieces("toml"), key=len, reverse=True)
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    (tmp_path / "survey.toml").write_text(SURVEY, encoding="utf-8")
    found = CampaignFile.load(tmp_path / "c.toml").campaign
    assert found.domain["smoker"].labels == ("yes", "no", "no answer")
    assert (found.opens, found.closes) == (date(2027, 1, 1), date(2027, 3, 31))
    assert (found.budget, found.round, found.promise.gamma) == (6.0, 1, 19)


def test_the_proxies_pass_on_to_where_the_page_serves() -> None:
    page = (DOCS / "collector" / "operator.md").read_text(encoding="utf-8")
    assert set(re.findall(r"127\.0\.0\.1[: ](?:--port )?(\d+)", page)) == {"8000"}
    assert "access_log off;" in page and "client_max_body_size 256k;" in page
