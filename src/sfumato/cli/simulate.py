"""`sfumato simulate`: synthetic people answer a campaign through the real client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sfumato.cli.options import STORE, CampaignPath, Force, Json, check_output, option
from sfumato.cli.printing import print_facts, print_json, print_notes, print_table, row_bar
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.simulating import Simulated, simulated, synthetic_truth
from sfumato.printable import percent
from sfumato.randomness import secure, seeded
from sfumato.table import save

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
    _print(found, json)
    if server is not None:
        print_notes([NOT_COMPARED])


def _print(found: Simulated, json: bool) -> None:

    if json:
        rows = [
            {
                "question": e.question,
                "answer": e.answer,
                "truth": e.truth,
                "value": e.value,
                "low": e.low,
                "high": e.high,
            }
            for e in found.compared
        ]
        done = {"people": found.people, "stored": found.stored, "seconds": found.seconds}
        print_json({**done, "coverage": found.coverage, "answers": rows})
        return
    facts = [("people", f"{found.people:,}"), ("stored", f"{found.stored:,}")]
    if not found.compared:
        print_facts(facts)
        return
    inside = sum(each.covered for each in found.compared)
    facts.append(("intervals that hold the truth", f"{inside} of {len(found.compared)}"))
    print_facts(facts)
    print()
    lines = [
        [
            e.question,
            e.answer,
            percent(e.truth),
            percent(e.value),
            f"{percent(e.low)} – {percent(e.high)}",
        ]
        for e in found.compared[:SHOWN]
    ]
    print_table(["question", "answer", "truth", "estimate", "95 % interval"], lines)
