"""`sfumato reblur`: a blurrier copy of a release for further readers."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import (
    Force,
    Guaranteed,
    Json,
    Output,
    argument,
    check_output,
    option,
)
from sfumato.cli.printing import print_either, print_notes
from sfumato.cli.summary import summarise
from sfumato.errors import ParameterError
from sfumato.randomness import secure, seeded
from sfumato.table import read_perturbed, save
from sfumato.table.reblurring import reblur as blur_again

CHAIN = (
    "for a reader who may see less, blur this copy again: two copies made of the same release say "
    "more together than either"
)


def reblur(
    release: Annotated[str, argument("A file that Sfumato perturbed.", "RELEASE")],
    output: Output,
    asked: Guaranteed,
    seed: Annotated[
        int | None, option("Draw from this seed: an experiment, and marked as one.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a blurrier copy of a release, without true records and without new budget.

    Example: sfumato reblur survey.parquet --gamma 5 -o partners.parquet
    """
    check_output(output, force, json)
    guarantee = asked.guarantee()
    if guarantee is None:
        raise ParameterError(
            "no privacy level given for the copy", hint="as in --gamma 5, or --epsilon 1"
        )
    before = read_perturbed(release)
    copy = blur_again(before, guarantee, secure() if seed is None else seeded(seed))
    save(copy, output, force=force)
    stated, new = before.provenance, copy.provenance
    assert stated is not None and new is not None  # both are releases
    described = summarise(new, copy.rows)
    was, now = stated.guarantee, new.guarantee
    facts = [
        ("written", str(output)),
        ("reports", f"{copy.rows:,}"),
        ("guarantee", f"gamma {now.gamma_words} (the release: {was.gamma_words})"),
        ("", described["promises"]),
    ]
    print_either(described | {"written": str(output)}, facts, json)
    if not json:
        print_notes([CHAIN, *described["caveats"]])
