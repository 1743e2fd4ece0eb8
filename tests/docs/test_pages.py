"""Every shell and Python block of the documentation runs, and the site builds without a warning.

Outcomes are kept by content (`docs_build`), so that a page whose blocks and sources did not change
since `make docs` is not run again.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import sfumato
from docs_build.blocks import blocks
from docs_build.doctests import fenced
from docs_build.lists import (
    LISTS,
    WISHES,
    commands,
    error_kinds,
    mechanisms,
    promises,
    python_index,
    sql_aggregates,
    sql_functions,
    sql_refused,
)
from docs_build.printing import PLACE, continued, embedded, folded, is_wide, printed, shortened
from docs_build.printing import fenced as output_fence
from docs_build.running import DOCS, ROOT, WIDTH, BlockError, outcomes, run
from sfumato.cli.commands import COMMANDS
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.mine.cube.aggregates import WORDS
from sfumato.mine.cube.statement import NAMES

PAGES = sorted(DOCS.rglob("*.md"))
CODE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[a-z]+)(?P<words>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
CONTINUED = re.compile(r" \\\n +")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_block_of_a_page_runs(page: Path) -> None:
    found = blocks(page.read_text(encoding="utf-8"))
    assert len(outcomes(page)) == len(found)


def test_the_json_of_every_command_and_every_kind_of_error_is_shown() -> None:
    page = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
    commands_run = "".join(block.text for block in blocks(page))
    # A demonstration takes long; its object is told in words.
    assert [name for name in COMMANDS if f"sfumato {name} " not in commands_run] == ["demo"]
    source = (ROOT / "src/sfumato/cli/errors.py").read_text(encoding="utf-8")
    for kind in re.findall(r'"kind": "(\w+)"', source):
        assert f"| `{kind}` |" in error_kinds()
    assert ">>>" not in error_kinds()


def code(page: str) -> list[tuple[str, str]]:
    """The language and the text of every block that is shown; continued commands as one line."""
    found = [each for each in CODE.finditer(page) if "hide" not in each["words"].split()]
    texts = (re.sub(f"^{each['indent']}", "", each["text"], flags=re.M) for each in found)
    return [
        (each["kind"], CONTINUED.sub(" ", text)) for each, text in zip(found, texts, strict=True)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_is_shown_as_it_stands_in_the_page(page: Path) -> None:
    shown = code(printed(page, lambda name, _: name, dict.fromkeys(LISTS, str)))
    assert shown == code(page.read_text(encoding="utf-8"))
    for text in (text for kind, text in shown if kind == "python"):
        compile(text, page.name, "exec")


def test_code_between_what_was_printed_is_not_folded(tmp_path: Path) -> None:
    page, long = tmp_path / "page.md", f"ExecStart={'a word ' * 20}"
    page.write_text(f"```ini\n{long}\n```\n\n{long}\n\n```ini\n{long}\n```\n", encoding="utf-8")
    assert printed(page, lambda name, _: name, LISTS) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "block",
    [
        "```sh\nfalse\n```\n",
        "```sh\nfalse | cat\n```\n",
        "```sh exit=2\ntrue\n```\n",
        "```python\nraise ValueError\n```\n",
        "```sh picture=a.svg\ntrue\n```\n",
        "```sh serve\necho http://nobody; exit 0\n```\n",
    ],
)
def test_a_block_that_does_not_end_as_it_should_is_found(block: str) -> None:
    with pytest.raises(BlockError, match=r"page\.md:1"):
        run(blocks(block), "page.md")


def test_a_block_told_something_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: a block cannot be told quite"):
        blocks("\n```sh quite\nls\n```\n")


def test_blocks_share_a_folder_and_python_keeps_its_names() -> None:
    page = "```sh\necho 41 > n\n```\n```python\nn = int(open('n').read())\n```\n"
    page += "```python\nn + 1\n```\n```sh exit=3\nexit 3\n```\n"
    assert [outcome.output for outcome in run(blocks(page), "page.md")] == ["", "", "42", ""]


def test_a_server_runs_until_the_page_ends() -> None:
    server = "echo $$ > number; echo serving at http://here; exec sleep 100"
    page = f"```sh serve\n{server}\n```\n```sh\ncat number; kill -0 $(cat number)\n```\n"
    first, second = run(blocks(page), "page.md")
    assert first.output == "serving at http://here"
    with pytest.raises(ProcessLookupError):
        os.kill(int(second.output), 0)


def test_real_output_stands_under_its_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh lines=1\nseq 3\n```\n\n```sh hide\necho unseen\n```\n", encoding="utf-8")
    text = printed(page, lambda name, _: name, LISTS)
    assert "seq 3\n```" in text and "\n1\n… and 2 more lines\n" in text
    assert "unseen" not in text
    assert shortened("a\nb", "2") == "a\nb"


def test_every_generated_list_is_known_and_used() -> None:
    used = {name for page in PAGES for name in PLACE.findall(page.read_text(encoding="utf-8"))}
    assert used == LISTS.keys()


def test_the_reference_names_every_command_and_mechanism() -> None:
    assert all(f"## sfumato {name}\n" in commands() for name in COMMANDS)
    assert all(f"[`{name}`]" in mechanisms() for name in MECHANISMS)


def test_the_first_page_says_what_every_command_is_for() -> None:
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    told = "".join(line for line in page.splitlines() if line.startswith("| "))
    assert [name for name in COMMANDS if f"`sfumato {name}`" not in told] == []


def test_every_public_name_stands_under_one_wish() -> None:
    assert sorted(name for names in WISHES.values() for name in names) == sorted(sfumato._EXPORTS)
    assert "| [`sf.query`](#sfquery) | The answer to one SELECT" in python_index()


def test_a_mechanism_that_promises_is_told_a_guarantee() -> None:
    told = {line.split("`")[1]: line.split(" | ")[-1] for line in mechanisms().splitlines()[2:]}
    assert told["randomized-gamma"] == "a guarantee, `--spread` |"
    assert told["permuting"] == "`--keep` |" and told["gamma-diagonal"] == "a guarantee |"


def test_sentences_are_folded_and_tables_are_not() -> None:
    table = "questionnaire" + " " * 80 + "20.5 %"
    data = '{"message": "' + "a word and another " * 8 + '"}'
    sentence = "note: " + "words of a sentence " * 8
    lines = folded(f"{table}\n{data}\n{sentence}").split("\n")
    assert lines[:2] == [table, data]
    assert len(lines) == 4 and lines[3].startswith("  ") and max(map(len, lines[2:])) <= int(WIDTH)
    assert " ".join(" ".join(lines[2:]).split()) == sentence.strip()


def test_a_command_that_was_printed_can_be_typed_in_as_it_is_shown() -> None:
    command = "sfumato perturb DATA --schema survey.toml --mechanism questionnaire --gamma 19"
    command += " -o perturbed.parquet"
    shown = folded(f"  {command}")
    assert shown.count("\n") == 1 and shlex.split(shown.replace("\\\n", "")) == command.split()


def test_what_a_benchmark_printed_is_folded_too(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```\n{'a word ' * 20}\n```\n\n{'a word ' * 20}\n", encoding="utf-8")
    text = printed(page, lambda name, _: name, LISTS)
    assert max(map(len, text.split("\n\n")[0].split("\n"))) <= int(WIDTH)
    assert text.endswith(f"{'a word ' * 20}\n")


def test_a_long_command_goes_on_before_an_argument_and_not_within_quotes() -> None:
    asked = (
        "\"SELECT COUNT(*) FROM t WHERE smoker = 'yes' AND a --not an option GROUP BY exercise\""
    )
    command = f"sfumato query blurred.parquet {asked} --plot query.svg --level 0.99"
    assert continued(command) == (
        f"sfumato query blurred.parquet \\\n    {asked} \\\n    --plot query.svg --level 0.99"
    )
    unlike = "print('x')  # " + "a --word " * 12
    assert continued(f"sfumato plan s.toml\n{unlike}") == f"sfumato plan s.toml\n{unlike}"


def test_a_wide_picture_is_marked_as_one() -> None:
    wide, narrow = (
        f'<?xml?>\n<svg xmlns="x" width="{w}pt" height="9pt">'.encode() for w in (700, 360)
    )
    assert is_wide(wide) and not is_wide(narrow) and not is_wide(b"\x89PNG")
    assert embedded("a.svg", "b/a.svg", "Seen", wide=True) == (
        "[![Seen](b/a.svg){ .wide }](b/a.svg)"
    )


def test_numbers_and_their_errors_stay_together_in_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("5 ± 1\n\n| a |\n|---|\n| 5 ± 1 ≠ |\n", encoding="utf-8")
    text = printed(page, lambda name, _: name, LISTS)
    assert "| 5\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}≠ |" in text
    assert text.startswith("5 ± 1\n")


def test_columns_of_numbers_stand_to_the_right(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    lines = ("| what | n | ± |", "|---|---|---|", "| a | 1,953 | 5.0 ± 0.1 ≠ |", "| b | – | ∞ |")
    page.write_text("\n".join(lines) + "\n\n| x | y |\n|---|---|\n| a | b |\n", encoding="utf-8")
    text = printed(page, lambda name, _: name, LISTS)
    assert "|---|---:|---:|" in text and "|---|---|\n| a | b |" in text


def test_long_words_of_json_go_on_below() -> None:
    assert output_fence("text", '{\n "a": 1\n}').startswith("``` { .text .output .data }\n")
    assert output_fence("text", "a {b}").startswith("``` { .text .output }\n")


def test_the_page_of_sql_names_every_aggregate_and_every_refusal() -> None:
    words = {line.split("`")[1] for line in sql_aggregates().splitlines() if "`" in line}
    assert words == set(WORDS.split(", "))
    assert "`WIDTH_BUCKET`" in sql_functions() and "`AND`" not in sql_functions()
    assert all(f"| {name} | " in sql_refused() for name, _ in NAMES.values())


def test_a_block_can_define_a_dataclass() -> None:
    page = "```python\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    b: int\n```\n"
    page += "```python\nA(1).b\n```\n"
    assert [outcome.output for outcome in run(blocks(page), "page.md")] == ["", "1"]


def test_what_promises_no_gamma_is_known() -> None:
    lines = promises().splitlines()
    refusing = {line.split("`")[1] for line in lines if "| no γ |" in line}
    assert refusing == {"permuting", "fp-nfp", "matrix"}


def test_examples_of_docstrings_become_blocks() -> None:
    assert fenced("A.\n\n>>> 1\n1\n\nB.") == "A.\n\n```pycon\n>>> 1\n1\n```\n\nB."


@pytest.mark.skipif(
    find_spec("mkdocs") is None and "CI" not in os.environ, reason="the group docs is not installed"
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.rglob("*.html"))) >= len(PAGES)
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert first.count(f"Sfumato {sfumato.__version__}") >= 3  # title, header and footer
