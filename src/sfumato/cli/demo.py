"""`sfumato demo`: the whole path on synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sfumato.cli.demonstration import Demonstration
from sfumato.cli.options import Json, option
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, print_words, show
from sfumato.cli.summary import summarise
from sfumato.errors import FileError
from sfumato.randomness import secure, seeded
from sfumato.result import save_view


def demo(
    output: Annotated[
        Path, option("Where the HTML report goes.", "--output", "-o", metavar="DIR")
    ] = Path("demo-output"),
    rows: Annotated[int, option("How many people, and how many baskets.")] = 100_000,
    seed: Annotated[int | None, option("Draw the noise from this seed: an experiment.")] = None,
    json: Json = False,
) -> None:
    """See the whole path on synthetic data: perturb, reconstruct, mine, ask, classify, publish.
    Writes a report with pictures.

    Example: sfumato demo -o demo-output
    """
    story = Demonstration(rows, seeded(1), secure() if seed is None else seeded(seed))
    view = story.view()
    path = _folder(output) / "report.html"
    origin = origin_of("none: people and baskets are synthetic", story.release)
    save_view(with_origin(view, origin), path)
    if json:
        promised = summarise(story.release.provenance, story.release.rows)
        print_json({**promised, "marginals": story.cells_as_json(), "report": str(path)})
        return
    show(view, most=None)
    print_words(f"\nThe same with pictures: {path}")


def _folder(path: Path) -> Path:

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder '{path}': {error.strerror}") from None
    return path
