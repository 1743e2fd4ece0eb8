"""Every benchmark, each in a process of its own: `python -m bench [--write FILE] [NAME…]`.

`--write` puts what each printed into a Markdown file, one section for each name, which a later run
of that name replaces.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

import bench
from sfumato import __version__

NO_BENCHMARKS = {"__main__", "hdg", "svsm"}  # the runner, and peers that are measured against
HEADING = """# Speed: the figures

Written by `python -m bench --write docs/figures/speed.md NAME…`: each section is what that
benchmark printed, and its first line says when, with which version and on what. CPU seconds are of
one core and the best of a few turns; peers ran in the same process of the same run.
"""


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, all of them by default; the worst exit code."""
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    known = [name for name in modules if name not in NO_BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    if strange := [name for name in given.names if name not in known]:
        parser.error(f"no benchmark '{strange[0]}' ({', '.join(known)})")
    return max((measured(name, given.write) for name in given.names or known), default=0)


def measured(name: str, file: Path | None) -> int:
    """The exit code of one benchmark; what it prints is shown, and kept in the file if there is
    one.
    """
    print(f"== {name}", flush=True)
    command = [sys.executable, "-m", f"bench.{name}"]
    if file is None:
        return subprocess.run(command, check=False).returncode
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    missed = [f"exit code {done.returncode}"] if done.returncode else []
    bench.write_section(file, HEADING, name, [circumstances(), *done.stdout.splitlines(), *missed])
    return done.returncode


def circumstances() -> str:
    """When, with which version and on what machine."""
    python = platform.python_version()
    return (
        f"{date.today()}, Sfumato {__version__}, Python {python}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
