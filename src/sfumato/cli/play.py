"""`sfumato play`: the idea as one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sfumato.cli.options import Force, Json, option
from sfumato.cli.printing import print_either
from sfumato.collect.play import play_page
from sfumato.files import write_whole
from sfumato.table.formats import check_free


def play(
    output: Annotated[
        Path, option("Where the page is written.", "--output", "-o", metavar="FILE")
    ] = Path("sfumato-play.html"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Write one page on which records are blurred before your eyes and the crowd stays sharp.

    Example: sfumato play -o play.html
    """
    check_free(output, force)
    octets = play_page().encode()
    write_whole(output, octets, force=force)
    result = {"output": str(output), "bytes": len(octets)}
    print_either(result, [("open in a browser", str(output))], json)
