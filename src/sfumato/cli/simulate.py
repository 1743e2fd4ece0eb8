"""`sfumato simulate`: synthetic people answer a campaign through the real client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from sfumato.cli.options import STORE, CampaignPath, Force, Json, check_output, option
from sfumato.cli.printing import print_json, print_notes, row_bar, show
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.simulating import Compared, Simulated, simulated, synthetic_truth
from sfumato.printable import percent
from sfumato.randomness import secure, seeded
from sfumato.table import save
from sfumato.view import TableView, View

SHOWN = 20  # lines of the comparison
NOT_COMPARED = (
    "not compared with what they truly said: others may have answered at a running server; "
    "its dashboard has the estimates"
)


def simulate(
    file: CampaignPath,
    people: Annotated[int, option("How many answer.")] = 10_000,
    server: Annotated[
        str | None, option("A running server; else one is run for the purpose.", metavar="URL")
    ] = None,
    store: Annotated[
        str, option("Where a server of our own keeps the reports.", metavar="FILE")
    ] = STORE,
    token: Annotated[
        str | None, option("A token of role send, for a running server.", envvar="SFUMATO_TOKEN")
    ] = None,
    seed: Annotated[int | None, option("The same people again; their noise is fresh.")] = None,
    output: Annotated[
        Path | None, option("Write what the people truly said.", "--output", "-o", metavar="OUT")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Let synthetic people answer a campaign through the real client and HTTP, and hold the
    estimates against what they truly said.

    Example: sfumato simulate c.toml --people 10000 --store campaign.db
    """
    if output is not None:
        check_output(output, force, json)
    campaign = CampaignFile.load(file).campaign
    truth = synthetic_truth(campaign, people, secure() if seed is None else seeded(seed))
    with row_bar("answering") as progress:
        found = simulated(str(file), truth, server, store, token, progress)
    if output is not None:
        save(truth, output, force=force)
    if json:
        done = {"people": found.people, "stored": found.stored, "seconds": found.seconds}
        answers = [asdict(each) for each in found.compared]
        print_json({**done, "coverage": found.coverage, "answers": answers})
    else:
        show(_view(found))
    if server is not None:
        print_notes([NOT_COMPARED])


def _view(found: Simulated) -> View:
    facts = [("people", f"{found.people:,}"), ("stored", f"{found.stored:,}")]
    if not found.compared:
        return View(facts=facts)
    inside = sum(each.covered for each in found.compared)
    facts.append(("intervals that hold the truth", f"{inside} of {len(found.compared)}"))
    return View(facts=facts, sections=(View(tables=(compared_table(found.compared[:SHOWN]),)),))


def compared_table(compared: Sequence[Compared]) -> TableView:
    """What was estimated, beside what the people truly said."""
    lines = [
        (
            e.question,
            e.answer,
            *map(percent, (e.truth, e.value)),
            f"{percent(e.low)} – {percent(e.high)}",
        )
        for e in compared
    ]
    return TableView.of(("question", "answer", "truth", "estimate", "95 % interval"), lines)
