"""Commands are run with standard output and standard error kept apart, whichever Click stands
behind Typer.
"""

from __future__ import annotations

import inspect
from functools import partialmethod
from typing import Any

from typer.testing import CliRunner

# Click before 8.2 mixes the two streams unless told not to; later ones, and Typer's own copy, keep
# them and the mixture.
if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters:
    from click.testing import Result

    apart: Any = partialmethod(CliRunner.__init__, mix_stderr=False)
    CliRunner.__init__ = apart
    Result.output = property(lambda result: result.stdout + result.stderr)
