"""Running: the blocks of a page, one after another in a scratch folder, each with its outcome."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from docs_build.blocks import Block, blocks

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
KEPT = ROOT / "build" / "docs"  # outcomes by content: the same page and sources are run once
SECONDS = 240  # that one block may take
QUIET_SECONDS = 1.0  # after its address in which a server has said all that it says first
WIDTH = "86"  # letters of a line: what fits beside both lists of contents on a small screen
SOURCES = (
    "src/sfumato/**/*.py",
    "papers/*.py",
    *(f"docs_build/{name}.py" for name in ("blocks", "running", "interpreter")),
)


class BlockError(Exception):
    """A block of a page that did not end as the page says."""


@dataclass(frozen=True)
class Outcome:
    """What a block printed, and the picture it wrote if the page shows one."""

    output: str
    picture: str | None = None  # base64


@cache
def fingerprint() -> str:
    """What the sources are, in a word: a change of any makes every page run again."""
    digest = hashlib.sha256(sys.version.encode())
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def outcomes(page: Path) -> list[Outcome]:
    """The outcome of every block of a page: run now, or kept from when the same was run before."""
    found = blocks(page.read_text(encoding="utf-8"))
    if not found:
        return []
    asked = json.dumps([fingerprint(), [block.key() for block in found]])
    kept = KEPT / f"{hashlib.sha256(asked.encode()).hexdigest()}.json"
    if kept.exists():
        return [Outcome(**entry) for entry in json.loads(kept.read_text(encoding="utf-8"))]
    made = run(found, page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name)
    KEPT.mkdir(parents=True, exist_ok=True)
    whole = kept.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps([asdict(entry) for entry in made]), encoding="utf-8")
    whole.replace(kept)
    return made


def run(found: list[Block], name: str) -> list[Outcome]:
    """Run blocks in a folder of their own."""
    with TemporaryDirectory(prefix="page-") as folder, Session(Path(folder)) as session:
        return [session.outcome(block, name) for block in found]


class Session:
    """A scratch folder with a shell for commands and one Python for all Python blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = environment(folder)
        self._python: subprocess.Popen[str] | None = None
        self._servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGINT)
        for server in self._servers:
            server.wait(SECONDS)
        if self._python is not None:
            self._python.communicate(timeout=SECONDS)

    def outcome(self, block: Block, name: str) -> Outcome:
        """Run one block; BlockError where it does not end as it must."""
        if "serve" in block.flags:
            output, status = self.served(block)
        else:
            output, status = self.shell(block) if block.kind == "sh" else self.python(block)
        output = self.tidied(output)
        if status != block.status:
            raise BlockError(
                f"{name}:{block.line}: ended with {status}, not {block.status}:\n"
                f"{block.text}{output}"
            )
        if (wanted := block.settings.get("picture")) is None:
            return Outcome(output)
        if not (picture := self.folder / wanted).exists():
            raise BlockError(f"{name}:{block.line}: wrote no {wanted}:\n{block.text}{output}")
        return Outcome(output, base64.b64encode(picture.read_bytes()).decode())

    def shell(self, block: Block) -> tuple[str, int]:
        """What a shell block printed, and its status."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        return done.stdout, done.returncode

    def served(self, block: Block) -> tuple[str, int]:
        """What a server said until it listened, and 0; or its status where it ended instead."""
        said = self.folder / f".said{len(self._servers)}"
        with said.open("wb") as stream:
            # Where the build itself is killed, nobody ends the server but this clock.
            server = subprocess.Popen(
                ["timeout", str(4 * SECONDS), "bash", "-euo", "pipefail", "-c", block.text],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append(server)
        end = time.monotonic() + SECONDS
        while "://" not in said.read_text() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(QUIET_SECONDS)
        ended = server.poll()
        return said.read_text(), 0 if ended is None else ended or 1

    def python(self, block: Block) -> tuple[str, int]:
        """What a Python block printed, and 1 where it failed."""
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-m", "docs_build.interpreter"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._python.stdin is not None and self._python.stdout is not None
        self._python.stdin.write(json.dumps(block.text) + "\n")
        self._python.stdin.flush()
        line = self._python.stdout.readline()
        if not line:
            return "the interpreter ended\n", self._python.wait() or 1
        answer = json.loads(line)
        return answer["output"], answer["status"]

    def tidied(self, output: str) -> str:
        """The output without trailing spaces and without the name of the scratch folder."""
        output = output.replace(f"{self.folder}/", "").replace(str(self.folder), ".")
        return re.sub(r"[ \t]+$", "", output, flags=re.M).strip("\n")


def environment(folder: Path) -> dict[str, str]:
    """The environment of blocks: our sources and programs first, nothing kept outside the folder,
    and text of one width without colours.
    """
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # Lines of libraries' warnings would name files of this machine.
    return os.environ | {
        "PATH": programs,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
        "SFUMATO_CACHE": str(folder / ".kept"),
        "COLUMNS": WIDTH,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "TMPDIR": str(folder),
    }
