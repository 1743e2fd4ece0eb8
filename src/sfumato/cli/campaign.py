"""`sfumato campaign`: write, check and verify campaigns, and the form as one file."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    STORE,
    CampaignPath,
    Force,
    Guaranteed,
    Json,
    Output,
    argument,
    check_absent,
    option,
)
from sfumato.cli.printing import (
    print_either,
    print_facts,
    print_json,
    print_notes,
    print_table,
    print_words,
)
from sfumato.collect.assets import Assets
from sfumato.collect.campaign_file import LEAST_PEOPLE, CampaignFile, once
from sfumato.collect.checking import CampaignCheck
from sfumato.collect.checking import check as check_campaign
from sfumato.collect.choosing import ROUNDS_BY, best_mechanism, first_round, named_mechanism
from sfumato.collect.drafting import draft
from sfumato.collect.form import single_file
from sfumato.collect.manifest import Manifest, Published, private_key, public_key, public_path
from sfumato.collect.manifest import new_key as make_key
from sfumato.collect.releases import begin_next
from sfumato.collect.store import open_store
from sfumato.collect.verifying import BROWSERS, Verified
from sfumato.collect.verifying import verify as verify_server
from sfumato.domain import Domain
from sfumato.errors import ParameterError, listing
from sfumato.files import appearing, write_whole, written
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import ROUNDS
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.printable import one_line, percent, upwards
from sfumato.privacy.guarantee import PRIOR, Guarantee

campaign = typer.Typer(
    help="Write, check and verify a campaign, or make its form one file.", rich_markup_mode="rich"
)

DIFFERENT = 3  # exit code of `verify` where a server hands out other files


@campaign.command()
def init(
    schema: Annotated[Path, argument("What is asked (TOML).", metavar="SCHEMA")],
    output: Output,
    guaranteed: Guaranteed = Guaranteed(),
    mechanism: Annotated[
        str | None,
        option(
            "The mechanism, such as square-wave for numbers; the plan's best unless stated.",
            metavar="NAME",
            known=MECHANISMS,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        option("Ask so many people for baskets in rounds, each in one of them.", metavar="PEOPLE"),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a campaign file for a schema, the best mechanism filled in; gamma is 19 unless said
    otherwise.

    Example: sfumato campaign init survey.toml -o c.toml --gamma 19
    """
    check_absent(output, force)
    given = {key: value for key, value in vars(guaranteed).items() if value is not None}
    stated = given or {"gamma": 19.0}
    asked = Guaranteed(**stated).guarantee()
    assert asked is not None
    domain = Domain.load(schema)
    chosen = _chosen(domain, asked, mechanism, rounds)
    name = chosen.name
    turns = None if rounds is None else (rounds, once(asked))
    sent = [domain.names[place] for place, what in chosen.program().sent_as_is if what == "size"]
    text = draft(domain, schema, output, stated, name, turns, sent)
    write_whole(output, text.encode(), force=force)
    facts = [
        ("written", str(output)),
        ("mechanism", name),
        ("next", f"edit its texts, then sfumato campaign check {output}"),
    ]
    print_either({"output": str(output), "mechanism": name, "promise": stated}, facts, json)


def _chosen(domain: Domain, asked: Guarantee, named: str | None, rounds: int | None) -> Mechanism:
    """The mechanism of a campaign: that of rounds, the one that is named, or the plan's best."""
    if rounds is None:
        return (
            best_mechanism(domain, asked)
            if named is None
            else named_mechanism(named, domain, asked)
        )
    if rounds < LEAST_PEOPLE:
        raise ParameterError(
            f"--rounds {rounds}: {LEAST_PEOPLE} people are the fewest that can be asked in rounds"
        )
    if named not in (None, ROUNDS_BY):
        raise ParameterError(
            f"a campaign's rounds are asked by {ROUNDS_BY}, not by {named}",
            hint="leave --mechanism or --rounds out",
        )
    return first_round(domain, asked)


@campaign.command()
def check(file: CampaignPath, json: Json = False) -> None:
    """Check a campaign: what it promises, from the integers that are drawn; how many people each
    question needs, what a forged answer could do, which texts are missing.

    Example: sfumato campaign check c.toml
    """
    found = check_campaign(CampaignFile.load(file).campaign)
    if json:
        print_json(asdict(found))
        return
    _print_check(found)
    print_notes([*found.missing, *found.warnings])


NOTICED = {
    "repeat": "one and the same report again and again",
    "impossible": "reports for one answer",
    "day": "reports for one answer today, of today's",
}


def _print_check(found: CampaignCheck) -> None:
    kept = Guarantee(Fraction(found.gamma))
    print_facts(
        [
            ("campaign", found.name),
            ("hash", found.hash),
            ("mechanism", found.mechanism),
            ("gamma", found.gamma.removesuffix("/1")),
            ("epsilon", kept.epsilon_words),
            (
                "promises",
                f"who believed {percent(PRIOR, 0)} before believes at most "
                f"{kept.posterior_words()} after",
            ),
            ("as it was", f"a report is true of its sender in {_shares(found)} of cases"),
        ]
    )
    print()
    lines = [
        [
            each.name,
            "–" if each.people is None else f"{each.people:,}",
            "–" if each.leverage is None else f"{each.leverage:.3g}",
            each.limit or "",
        ]
        for each in found.questions
    ]
    headings = ["question", "people for ± 2 points", "people a forged report moves", ""]
    print_table(headings, lines)
    print()
    shares = ["never" if each.notices is None else percent(each.notices) for each in found.watch]
    rows = [[NOTICED[each.kind], share] for each, share in zip(found.watch, shares, strict=True)]
    print_table(["forged reports among 10,000, 1,000 of them today's", "noticed from"], rows)


def _shares(found: CampaignCheck) -> str:
    """How often a report is true: one figure, or the smallest and the largest by question."""
    least, most = percent(found.truthful_least), percent(found.truthful)
    return most if least == most else f"{least} to {most}"


@campaign.command("next")
def next_round(
    file: CampaignPath,
    store: Annotated[
        str, option("Where its reports are: a file, or postgresql://…", metavar="FILE")
    ] = STORE,
    json: Json = False,
) -> None:
    """Close the round that a campaign is at, and begin the next: a server does so by itself once a
    round's share of the people announced has answered.

    Example: sfumato campaign next c.toml --store campaign.db
    """
    stated, opened = CampaignFile.load(file), open_store(store)
    try:
        found = begin_next(opened, stated).campaign
    finally:
        opened.close()
    candidates = getattr(found.mechanism, "candidates", ())
    facts = [
        ("campaign", found.name),
        ("round", f"{found.round} of {ROUNDS}"),
        ("asks for", f"{len(candidates)} itemsets"),
    ]
    result = {"campaign": found.name, "round": found.round, "candidates": len(candidates)}
    print_either(result, facts, json)


@campaign.command()
def sign(
    file: CampaignPath,
    key: Annotated[Path, option("The key to sign with (Ed25519, PEM).", metavar="FILE")],
    output: Annotated[Path, option("The manifest to write.", "--output", "-o", metavar="FILE")],
    new_key: Annotated[
        bool, option("Make the key, and FILE.pub beside it; neither replaces a file.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a signed manifest: page, scripts and campaign, for others to compare a server with.

    Example: sfumato campaign sign c.toml --key owner.key --new-key -o manifest.json
    """
    check_absent(output, force)
    if output.resolve() in (key.resolve(), public_path(key).resolve()):
        raise ParameterError("-o names the key, which is never overwritten", hint="another name")
    stated = CampaignFile.load(file).campaign.document()
    manifest = Manifest.of(Published.of(Assets.load()), stated)
    # The key is made once the manifest can be written, which has its name once there is a key.
    with written(output), appearing(output, force=force) as stream:
        stream.write(manifest.signed(make_key(key) if new_key else private_key(key)))
    result = {"output": str(output), "digest": manifest.digest, "hash": stated["hash"]}
    facts = [
        ("manifest", str(output)),
        ("digest", f"{manifest.digest} (for paper)"),
        ("hand out", f"{output} and {public_path(key)}; keep {key} to yourself"),
    ]
    print_either({**result, "public_key": str(public_path(key))}, facts, json)


@campaign.command()
def verify(
    url: Annotated[str, argument("The address of a campaign's form.", metavar="URL")],
    file: Annotated[
        Path | None, argument("The campaign file that it should serve.", metavar="CAMPAIGN")
    ] = None,
    manifest: Annotated[
        Path | None, option("A manifest that `campaign sign` wrote; needs --key.", metavar="FILE")
    ] = None,
    key: Annotated[
        Path | None, option("The public key that the manifest was signed with.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Compare what a server hands out with this version or a manifest: 0 the same, 3 different.

    It asks as several browsers do and computes the campaign's hash, its guarantee and what is sent
    as it is.

    Example: sfumato campaign verify https://example.org/health-2027
    """
    if (manifest is None) != (key is None):
        raise ParameterError(
            "--manifest and --key belong together",
            hint="as in --manifest manifest.json --key owner.key.pub",
        )
    signed = None if manifest is None or key is None else Manifest.read(manifest, public_key(key))
    stated = None if file is None else CampaignFile.load(file).campaign
    found = verify_server(url, campaign=stated, manifest=signed)
    if json:
        print_json(asdict(found))
    else:
        _print_verified(found)
    if found.differences:
        raise typer.Exit(DIFFERENT)


def _print_verified(found: Verified) -> None:
    if (seen := found.campaign) is not None:
        kept = Guarantee(Fraction(seen.gamma))
        shown = f"γ = {upwards(kept.gamma, 6):,g}"
        print_facts(
            [
                ("campaign", f"{seen.name}, round {seen.round}"),
                ("hash", seen.hash),
                (
                    "guarantee",
                    f"{shown}: what was 5 % likely becomes at most {kept.posterior_words()}",
                ),
                ("sent as it is", listing(seen.sent_as_is) or "nothing"),
                *([("digest", found.digest)] if found.digest else []),
            ]
        )
    print_notes(found.notes)
    if found.differences:
        for each in found.differences:
            print_words(f"different: {one_line(each)}")
        return
    print(
        f"the same: the form's page, {found.files} files and all headers "
        f"({found.requests} requests, as {len(BROWSERS)} browsers)"
    )


@campaign.command()
def form(
    file: CampaignPath,
    output: Output,
    server: Annotated[str, option("Where the answers are sent.", metavar="URL")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the form as one HTML file, to be served from anywhere or opened from a disk.

    Example: sfumato campaign form c.toml --server https://example.org -o form.html
    """
    check_absent(output, force)
    octets = single_file(CampaignFile.load(file).campaign.document(), server).encode()
    write_whole(output, octets, force=force)
    sha256 = hashlib.sha256(octets).hexdigest()
    result = {"output": str(output), "bytes": len(octets), "sha256": sha256}
    print_either(result, [("written to", str(output)), ("SHA-256", sha256)], json)
