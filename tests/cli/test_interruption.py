"""Ctrl-C while modules are still being loaded is an interruption, whatever the import makes of
it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A finder that presses Ctrl-C when a module is looked for; `swallow` stands for libraries that turn
# an interruption into an error of their own, as pandas did.
PRESSING = """
import os, signal, sys
class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                {swallow}
sys.meta_path.insert(0, Pressing())
from sfumato.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "sfumato.cli.errors", "pyarrow", "numpy"])
@pytest.mark.parametrize(
    "swallow", ["raise", "raise AttributeError('partially initialized module')"]
)
def test_an_interrupted_import_says_interrupted(module: str, swallow: str, tmp_path: Path) -> None:
    early = module in ("typer", "sfumato.cli.errors")
    if early and swallow != "raise":
        pytest.skip("before the commands are known only we are loaded, and swallow nothing")
    (tmp_path / "t.csv").write_text("sex\nF\nM\n")
    script = PRESSING.format(module=module, swallow=swallow)
    done = subprocess.run(
        [sys.executable, "-c", script, "schema", str(tmp_path / "t.csv")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "sfumato: interrupted; nothing was changed\n"
