"""What `campaign verify` sees of a dishonest server: one thing is changed at a time, by a proxy."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.collect.proxying import Change, Passing, Proxy, proxied, unchanged
from tests.collect.speaking import CAMPAIGN, speaking
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.canonical import digest
from sfumato.collect.manifest import LETTERS, Manifest, new_key, private_key, public_key
from sfumato.collect.verifying import HARMLESS
from sfumato.errors import FileError

EVIL = b"<!doctype html><title>Survey</title><p>answers typed here go out as they are"


def run(line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def run_json(line: str, code: int = 0) -> Any:
    return json.loads(run(line + " --json", code).stdout)


def complaint(line: str) -> str:
    """The one line of a command that fails."""
    told = run(line, 2)
    assert told.stdout == "" and len(told.stderr.strip().splitlines()) == 1
    return str(told.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify")
    (path / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Proxy]:
    with (
        speaking(folder / "c.toml", str(folder / "campaign.db")) as speaker,
        proxied(speaker.address) as proxy,
    ):
        yield proxy


@pytest.fixture(scope="module")
def signed(folder: Path) -> str:
    """The options that name a manifest of the campaign and its key."""
    run(f"campaign sign {folder}/c.toml --key {folder}/k --new-key -o {folder}/m.json")
    return f"--manifest {folder}/m.json --key {folder}/k.pub"


@pytest.fixture
def proxy(served: Proxy) -> Iterator[Proxy]:
    yield served
    served.change = unchanged


def on_page(change: Change) -> Change:
    return lambda passing: change(passing) if passing.page else passing


def at(end: str, change: Change) -> Change:
    return lambda passing: change(passing) if passing.path.endswith(end) else passing


def evil(passing: Passing) -> Passing:
    return replace(passing, body=EVIL)


def one_byte(passing: Passing) -> Passing:
    return replace(passing, body=passing.body[:-2] + b" \n")


def for_whom(word: str, change: Change = evil) -> Change:
    """A change of the page for those who name a word in any header."""
    return on_page(lambda each: change(each) if word in " ".join(each.asked.values()) else each)


def campaign(**changes: Any) -> Change:
    """A change of the campaign's JSON; its hash stays as it was."""
    return at("/v1/campaigns/health", lambda each: each.documented(each.document | changes))


def _program(gamma: int) -> dict[str, Any]:
    text = CAMPAIGN.replace("gamma = 19", f"gamma = {gamma}")
    path = Path(os.environ["VERIFY_SCRATCH"]) / f"{gamma}.toml"
    path.write_text(text, encoding="utf-8")
    found: dict[str, Any] = CampaignFile.load(path).campaign.document()
    return found


def other_program(passing: Passing) -> Passing:
    return passing.documented(passing.document | {"program": _program(7)["program"]})


def another_campaign(passing: Passing) -> Passing:
    """One that is right in itself: program, promise and hash fit each other."""
    return passing.documented(_program(18))


def public(passing: Passing) -> Passing:
    """A column that is said to be sent as it is, with a program and a hash that fit."""
    path = Path(os.environ["VERIFY_SCRATCH"]) / "public.toml"
    text = CAMPAIGN.replace('values = ["young"', 'public = true\nvalues = ["young"')
    path.write_text(text, encoding="utf-8")
    return passing.documented(CampaignFile.load(path).campaign.document())


def public_flag(passing: Passing) -> Passing:
    document = passing.document
    document["domain"]["attribute"][0]["public"] = True
    return passing.documented(document)


def swapped(passing: Passing) -> Passing:
    document = passing.document
    values = document["questions"]["smoker"]["values"]
    values["yes"], values["no"] = values["no"], values["yes"]
    return passing.documented(document)


def moved(passing: Passing) -> Passing:
    return replace(passing, status=302, body=b"").adding("location", "https://evil.example/")


def hinted(passing: Passing) -> Passing:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x.js>; rel=modulepreload\r\n\r\n"
    return replace(passing, before=early)


def packed(passing: Passing) -> Passing:
    """Compressed by the proxy, as an honest one may."""
    if passing.header("content-encoding") or "gzip" not in passing.asked.get("accept-encoding", ""):
        return passing
    body = gzip.compress(passing.body)
    return replace(passing, body=body).adding("content-encoding", "gzip")


def packed_as(codec: str, passing: Passing) -> Passing:
    """Compressed, where it is not yet, as browsers have taken it for some years."""
    if passing.header("content-encoding"):
        return passing
    packing = pa.Codec({"br": "brotli"}.get(codec, codec))
    body = packing.compress(passing.body, asbytes=True)
    return replace(passing, body=body).adding("content-encoding", codec)


def changed_when_packed(passing: Passing) -> Passing:
    if passing.header("content-encoding") != "gzip":
        return passing
    return replace(passing, body=gzip.compress(gzip.decompress(passing.body) + b"//"))


POLICY = "content-security-policy"
DISHONEST: dict[str, tuple[Change, str]] = {
    "refresh": (on_page(lambda p: p.adding("Refresh", "0; url=/evil")), "'refresh'"),
    "refresh with a blank": (on_page(lambda p: p.adding("Refresh ", "0; url=/evil")), "of HTTP"),
    "refresh below a line of nonsense": (
        on_page(lambda p: p.adding("nonsense\r\nRefresh", "0; url=/evil")), "not of HTTP",
    ),
    "link": (on_page(lambda p: p.adding("LINK", "</x.js>; rel=preload")), "'link'"),
    "set-cookie": (on_page(lambda p: p.adding("Set-Cookie", "id=7")), "'set-cookie'"),
    "set-cookie with a script": (at(".js", lambda p: p.adding("Set-Cookie", "id=7")), "set-cookie"),
    "set-cookie with the campaign": (
        at("/health", lambda p: p if p.page else p.adding("Set-Cookie", "id=7")), "the campaign: ",
    ),
    "service worker": (
        at("sfumato.js", lambda p: p.adding("Service-Worker-Allowed", "/")), "service-worker",
    ),
    "clear-site-data": (on_page(lambda p: p.adding("Clear-Site-Data", '"storage"')), "clear-site"),
    "location": (on_page(lambda p: p.adding("Location", "/evil")), "'location'"),
    "speculation": (on_page(lambda p: p.adding("Speculation-Rules", '"/x"')), "speculation-rules"),
    "unknown": (on_page(lambda p: p.adding("X-Of-The-Future", "1")), "'x-of-the-future'"),
    "another host": (on_page(lambda p: p.adding("Alt-Svc", 'h3="evil.example:443"')), "'alt-svc'"),
    "policy missing": (on_page(lambda p: p.without(POLICY)), f"'{POLICY}' is missing"),
    "policy longer": (
        on_page(lambda p: p.saying(POLICY, p.header(POLICY) + "; report-uri /x")), POLICY,
    ),
    "policy loosened, all words there": (
        on_page(lambda p: p.saying(POLICY, "script-src *; " + p.header(POLICY))), POLICY,
    ),
    "policy that reports": (
        on_page(lambda p: p.adding(f"{POLICY}-report-only", "script-src 'none'; report-uri /x")),
        "report-only",
    ),
    "opener": (on_page(lambda p: p.saying("cross-origin-opener-policy", "unsafe-none")), "opener"),
    "type": (at("form.js", lambda p: p.saying("content-type", "text/html")), "form.js: the header"),
    "sniffing": (at("form.js", lambda p: p.without("x-content-type-options")), "is missing"),
    "kept page": (on_page(lambda p: p.saying("cache-control", "max-age=99")), "'cache-control'"),
    "moved": (on_page(moved), "answers 302 and moves the browser to 'https://evil.example/'"),
    "script moved": (at("steps.js", moved), "steps.js: the server answers 302"),
    "early hints": (on_page(hinted), "answers 103"),
    "a byte of the page": (on_page(one_byte), "the form's page: other bytes"),
    "page of an iPhone": (for_whom("iPhone"), "(108 of 540 requests, the first as Safari on"),
    "page of Firefox in French": (
        on_page(lambda p: evil(p) if "Firefox" in p.asked["user-agent"]
                and p.asked.get("accept-language", "").startswith("fr") else p),
        "(18 of 540 requests, the first as Firefox, fr-FR",
    ),
    "page in German": (for_whom("de-DE"), "(90 of 540 requests, the first as Chrome, de-DE, /"),
    "page of a navigation": (for_whom("navigate"), "(432 of 540"),
    "page behind a link": (for_whom("https://example.org"), "(180 of 540 requests"),
    "page loaded again": (for_whom("max-age=0"), "(180 of 540 requests"),
    "page for pictures of today": (for_whom("image/avif"), "(216 of 540 requests"),
    "page for a packer of today": (for_whom("zstd"), "(324 of 540 requests"),
    "a page packed by it": (
        on_page(lambda p: packed_as("zstd", evil(p))), "the form's page: other bytes",
    ),
    "another campaign for who takes none that was kept": (
        lambda p: another_campaign(p) if "no-cache" in p.asked.get("pragma", "")
        and p.path.startswith("/v1/campaigns/") and "example" in p.asked.get("origin", "") else p,
        "the campaign: other bytes than those expected (30 of 60",
    ),
    "a script for other sites": (
        lambda p: changed_when_packed(p) if p.path.endswith("/sfumato.js")
        and p.asked.get("sec-fetch-site") == "cross-site" else p,
        "sfumato.js: other bytes than those expected (8 of 20",
    ),
    "page without query": (
        on_page(lambda p: p if "?" in p.path else evil(p)), "the first as Chrome, en-US, /health)",
    ),
    "page with a query": (
        on_page(lambda p: evil(p) if "utm_source" in p.path else p), "/health?utm_source=mail)",
    ),
    "a byte of a script": (at("/form.js", one_byte), "form.js: other bytes"),
    "a script for who embeds it": (
        lambda p: one_byte(p) if p.path == "/static/sfumato.js" else p, "sfumato.js: other bytes",
    ),
    "a script when compressed": (at("/program.js", changed_when_packed), "program.js: other bytes"),
    "a second part behind": (
        at("/form.js", lambda p: replace(packed(p), body=packed(p).body + gzip.compress(b"x"))),
        "form.js: it is compressed in a way",
    ),
    "compressed otherwise": (
        on_page(lambda p: p.adding("content-encoding", "br")), "cannot be unpacked here ('br')",
    ),
    **{
        f"{name} on what is kept": (
            lambda p, name=name: p.adding(name, '"visitor 7"') if p.page or "no-store"
            not in p.header("cache-control") else p,
            f"the header '{name}' is neither ours nor known to be harmless",
        )
        for name in ("etag", "last-modified")
    },
    "a script missing": (at("/steps.js", lambda p: replace(p, status=404)), "answers 404"),
    "words": (at("strings/fr.json", lambda p: p.documented({"send": "x"})), "strings/fr.json: "),
    "style": (at("form.css", one_byte), "form.css: other bytes"),
    "the list of files": (
        at("/v1/manifest", lambda p: p.documented(p.document | {"policy": "none"})),
        "the list of files: policy",
    ),
    "a program with the old hash": (at("/v1/campaigns/health", other_program), "its hash is"),
    "a public flag": (at("/v1/campaigns/health", public_flag), "the campaign: "),
    "a broken promise": (
        campaign(promise={"gamma": "2/1", "epsilon": 0.7}), "above its promise of gamma 2",
    ),
    "no promise": (campaign(promise={}), "the campaign: "),
    "a program of the future": (campaign(program={"version": 2, "steps": []}), "version 2"),
    "no JSON": (at("/v1/campaigns/health", evil), "the campaign: it is not the JSON"),
    "a round of its own": (campaign(round=2), "its hash is"),
    "another campaign for one browser": (
        lambda p: another_campaign(p) if p.path.startswith("/v1/campaigns/")
        and "Android" in p.asked["user-agent"] else p,
        "the campaign: other bytes than those expected (12 of 60",
    ),
}  # fmt: skip
# What is right in itself is told by a file or manifest that says what should be there.
STATED: dict[str, tuple[Change, str]] = {
    "another campaign": (at("/v1/campaigns/health", another_campaign), "promise.gamma is '18/1'"),
    "a public column": (at("/v1/campaigns/health", public), "domain.attribute.1.public is true"),
    "a larger promise": (campaign(promise={"gamma": "99/1", "epsilon": 4.6}), "'99/1', and '19/1'"),
    "no budget": (campaign(budget={"epsilon": 99.0}), "budget"),
    "answers swapped": (at("/v1/campaigns/health", swapped), "questions.smoker.values"),
    "a title": (campaign(title={"en": "Another"}), "title.en is 'Another'"),
    "a field of its own": (campaign(more=1), "more is 1, and nothing in"),
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFY_SCRATCH", str(tmp_path))


@pytest.mark.parametrize("name", DISHONEST)
def test_a_dishonest_server_is_found_out_and_what_it_changed_is_named(
    name: str, proxy: Proxy
) -> None:
    proxy.change, told = DISHONEST[name]
    found = run_json(f"campaign verify {proxy.address}/health", 3)
    assert told in "\n".join(found["differences"]), found["differences"]
    assert found["digest"] is None


@pytest.mark.parametrize("what", ["page", "script", "campaign"])
def test_every_header_of_ours_is_missed_and_a_change_of_it_seen(what: str, proxy: Proxy) -> None:
    path = {"page": "/health", "script": "/static/form.js", "campaign": "/v1/campaigns/health"}[
        what
    ]
    ours = [name for name, _ in proxy.fetched(path, {}).headers if name not in HARMLESS]
    assert len(ours) >= 5 and ("content-security-policy" in ours) is (what == "page")

    def changed(by: Change) -> list[str]:
        proxy.change = lambda p: by(p) if p.path == path else p
        return run_json(f"campaign verify {proxy.address}/health", 3)["differences"]

    missing = changed(lambda p: replace(p, headers=()))
    others = changed(
        lambda p: replace(p, headers=tuple(
            (name, f"{value}x" if name in ours else value) for name, value in p.headers))
    )  # fmt: skip
    twice = changed(lambda p: replace(p, headers=(*p.headers, *p.headers)))
    for name in ours:
        assert any(f"'{name}' is missing" in each for each in missing)
        assert any(f"the header '{name}' is '" in each for each in others)
        assert any(f"the header '{name}' is '" in each for each in twice)


@pytest.mark.parametrize("name", STATED)
def test_a_campaign_right_in_itself_is_held_against_a_file_and_a_manifest(
    name: str, proxy: Proxy, folder: Path, signed: str
) -> None:
    proxy.change, told = STATED[name]
    assert run_json(f"campaign verify {proxy.address}/health")["differences"] == []
    for more, where in ((f"{folder}/c.toml", "the file"), (signed, "the manifest")):
        found = run_json(f"campaign verify {proxy.address}/health {more}", 3)
        (line, *_) = [each for each in found["differences"] if told in each]
        assert line.endswith(f"in {where}")


def add(*headers: tuple[str, str]) -> Change:
    return lambda passing: replace(passing, headers=(*passing.headers, *headers))


HONEST: dict[str, Change] = {
    "nothing": unchanged,
    "nginx": add(
        ("Date", "Wed, 18 Nov 2026 10:00:00 GMT"), ("Server", "nginx"), ("Via", "1.1 proxy"),
        ("Connection", "keep-alive"), ("Strict-Transport-Security", "max-age=63072000"),
    ),
    "Caddy": add(
        ("Server", "Caddy"), ("Via", "1.1 Caddy"), ("Alt-Svc", 'h3=":443"; ma=2592000'),
        ("Age", "3"), ("X-Frame-Options", "DENY"),
    ),
    "tags on what nobody keeps": lambda p: p.adding("ETag", '"7"').adding("Last-Modified", "x")
    if p.header("cache-control") == "no-store" else p,
    "compressing": packed,
    "compressing by brotli": lambda p: packed_as("br", p),
    "compressing by zstd": lambda p: packed_as("zstd", p),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_server_passes_behind_a_proxy(
    name: str, proxy: Proxy, folder: Path, signed: str
) -> None:
    proxy.change = HONEST[name]
    for more in ("", f"{folder}/c.toml", signed, f"{folder}/c.toml {signed}"):
        found = run_json(f"campaign verify {proxy.address}/health {more}")
        assert found["differences"] == [] and found["requests"] > 300
        assert bool(found["notes"]) is (more == "")  # the campaign is compared with itself alone
    assert found["campaign"] == {
        "name": "health", "round": 1, "hash": CampaignFile.load(folder / "c.toml").campaign.hash,
        "gamma": "19/1", "epsilon": pytest.approx(2.944, abs=1e-3),
        "posterior": pytest.approx(0.5), "promise": "19/1", "sent_as_is": [],
    }  # fmt: skip
    said = " ".join(run(f"campaign verify {proxy.address}/health").stdout.split())
    assert "γ = 19" in said and "sent as it is nothing" in said and found["digest"] in said


def test_a_gamma_of_more_digits_than_are_read_is_rounded_up(tmp_path: Path) -> None:
    """Of 1,100 items each has its factor: 5,000 digits of a gamma of 18."""
    items = ", ".join(f'"{number}"' for number in range(1100))
    (tmp_path / "c.toml").write_text(
        f'name = "c"\ntitle = {{ en = "x" }}\n[[attribute]]\nname = "b"\ntype = "items"\n'
        f'values = [{items}]\n[promise]\ngamma = 19\n[mechanism]\nname = "mask"\n'
    )
    exact = CampaignFile.load(tmp_path / "c.toml").campaign.guarantee.gamma
    assert Fraction(exact).denominator > 10**4300
    stated = run_json(f"campaign check {tmp_path}/c.toml")["gamma"]
    assert exact <= Fraction(stated) <= exact * Fraction("1.000000000001") and len(stated) < 100
    assert f"gamma      {stated}" in run(f"campaign check {tmp_path}/c.toml").stdout
    with speaking(tmp_path / "c.toml", str(tmp_path / "c.db")) as speaker:
        found = run_json(f"campaign verify {speaker.address}/c {tmp_path}/c.toml")
        assert (found["differences"], found["campaign"]["gamma"]) == ([], stated)
        (tmp_path / "me.dat").write_text("3 17\n")
        assert run_json(f"send {speaker.address}/c {tmp_path}/me.dat --no-ledger")["stored"] == 1


def test_what_is_sent_as_it_is_is_printed(proxy: Proxy) -> None:
    proxy.change = at("/v1/campaigns/health", public)
    said = " ".join(run(f"campaign verify {proxy.address}/health").stdout.split())
    assert "sent as it is age" in said


def test_the_address_as_it_was_typed_is_looked_at(proxy: Proxy) -> None:
    proxy.change = on_page(lambda p: evil(p) if "from=" in p.path else p)
    assert run_json(f"campaign verify '{proxy.address}/health?from=ann'", 3)["differences"]
    assert run_json(f"campaign verify '{proxy.address}/health?from=é'", 3)["differences"]
    assert run_json(f"campaign verify '{proxy.address}/health'")["differences"] == []
    found = run_json(f"campaign verify {proxy.address}/elsewhere/health", 3)["differences"]
    assert "answers 404" in found[0] and "/elsewhere/health" in found[0]
    assert "names no campaign" in complaint(f"campaign verify {proxy.address}")


def test_what_no_form_is_at_gets_one_line(proxy: Proxy) -> None:
    assert "has no campaign 'nope'" in complaint(f"campaign verify {proxy.address}/nope")
    told = complaint(f"campaign verify {proxy.address}/health/dashboard")
    assert f"the form is at {proxy.address}/health" in told


def test_what_differs_everywhere_is_said_once(proxy: Proxy) -> None:
    proxy.change = lambda passing: passing.adding("X-Powered-By", "x")
    (line,) = run_json(f"campaign verify {proxy.address}/health", 3)["differences"]
    assert line.startswith("everything: the header 'x-powered-by' is neither ours")


def test_a_server_that_draws_everything_out_is_given_up(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(passing: Passing) -> Passing:
        time.sleep(0.05)
        return passing

    proxy.change = slowly
    monkeypatch.setattr("sfumato.collect.verifying.MOST_SECONDS", 1.0)
    start = time.monotonic()
    told = complaint(f"campaign verify {proxy.address}/health")
    assert "in the time for all of them" in told and time.monotonic() - start < 5


def test_a_server_of_another_version_is_called_so(proxy: Proxy) -> None:
    proxy.change = at("/v1/manifest", lambda p: p.documented(p.document | {"version": "0.1"}))
    found = run_json(f"campaign verify {proxy.address}/health", 3)["differences"]
    assert found == [
        f"the list of files: it is that of version '0.1'; compared were those of {_version()}"
    ]


def _version() -> str:
    from sfumato import __version__

    return __version__


# --- the manifest


def test_a_manifest_holds_what_the_server_hands_out(
    proxy: Proxy, folder: Path, signed: str
) -> None:
    found = run_json(f"campaign sign {folder}/c.toml --key {folder}/k -o {folder}/again.json")
    assert (folder / "again.json").read_bytes() == (folder / "m.json").read_bytes()
    contents = json.loads((folder / "m.json").read_text(encoding="utf-8"))["contents"]
    document = CampaignFile.load(folder / "c.toml").campaign.document()
    assert contents["campaign"] == {k: v for k, v in document.items() if k != "open"}
    letters = found["digest"].replace("-", "")
    assert len(letters) == 20 and set(letters) <= set(LETTERS) and 5 * len(letters) >= 80
    # The same letters by another way: the first 100 bits of the SHA-256, five at a time.
    bits = f"{int(digest(contents), 16):0256b}"
    assert letters == "".join(LETTERS[int(bits[at : at + 5], 2)] for at in range(0, 100, 5))
    assert run_json(f"campaign verify {proxy.address}/health")["digest"] == found["digest"]


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_a_key_is_for_its_owner_and_never_overwritten(folder: Path, tmp_path: Path) -> None:
    line = f"campaign sign {folder}/c.toml --key {tmp_path}/k -o {tmp_path}/m.json"
    assert "--new-key makes one" in complaint(line)
    old = os.umask(0)
    try:
        run(f"{line} --new-key")
    finally:
        os.umask(old)
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "k").read_bytes(), (tmp_path / "k.pub").read_bytes()
    assert "exists" in complaint(line)  # the manifest
    for name in ("k", "k.pub"):
        assert "never overwritten" in complaint(f"{line} --force --new-key")
        assert ((tmp_path / "k").read_bytes(), (tmp_path / "k.pub").read_bytes()) == before
        (tmp_path / name).rename(tmp_path / "away")
        assert "never overwritten" in complaint(f"{line} --force --new-key")
        assert not (tmp_path / name).exists()
        (tmp_path / "away").rename(tmp_path / name)
    run(f"{line} --force")
    for name in ("k", "k.pub"):
        told = complaint(
            f"campaign sign {folder}/c.toml --key {tmp_path}/k --force -o {tmp_path}/{name}"
        )
        assert "never overwritten" in told
    assert ((tmp_path / "k").read_bytes(), (tmp_path / "k.pub").read_bytes()) == before
    # Where the manifest cannot be written, no key is left behind, and the other way round.
    line = f"campaign sign {folder}/c.toml --new-key"
    assert "cannot write" in complaint(f"{line} --key {tmp_path}/x -o {tmp_path}/none/m.json")
    assert "cannot write" in complaint(f"{line} --key {tmp_path}/none/x -o {tmp_path}/other.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "k.pub", "m.json"]


def test_a_key_that_is_none_gets_one_line(folder: Path, tmp_path: Path, signed: str) -> None:
    line = f"campaign sign {folder}/c.toml -o {tmp_path}/m.json --key"
    for name, text in {
        "empty": b"", "words": b"no key", "large": b"-" * 100_000, "odd": b"\xff\xfe",
        "public": (folder / "k.pub").read_bytes(),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(text)
        complaint(f"{line} {tmp_path}/{name}")
        assert not (tmp_path / "m.json").exists()
    for name in ("empty", "words", "large", "odd", "none"):
        complaint(f"campaign verify http://127.0.0.1:9/x --manifest {folder}/m.json "
                  f"--key {tmp_path}/{name}")  # fmt: skip
    told = complaint(f"campaign verify http://127.0.0.1:9/x --manifest {folder}/m.json --key "
                     f"{folder}/k")  # fmt: skip
    assert "no public" in told and "PRIVATE" not in told
    assert "belong together" in complaint("campaign verify http://127.0.0.1:9/x --manifest m")
    assert "belong together" in complaint("campaign verify http://127.0.0.1:9/x --key k")


def test_a_manifest_that_is_not_as_it_was_signed_gets_one_line(
    folder: Path, tmp_path: Path, signed: str
) -> None:
    text = (folder / "m.json").read_text(encoding="utf-8")
    whole = json.loads(text)
    contents = whole["contents"]
    changed = {
        "gamma": text.replace('"19/1"', '"99/1"'),
        "script": text.replace(contents["files"]["form.js"], "0" * 64),
        "signature": json.dumps(whole | {"signature": "AAAA"}),
        "no signature": json.dumps({"contents": contents, "key": whole["key"]}),
        "no base64": json.dumps(whole | {"signature": "é"}),
        "future": json.dumps(whole | {"contents": contents | {"manifest": 2}}),
        "more": json.dumps(whole | {"more": 1}),
        "cut": text[:500],
        "empty": "",
        "list": "[]",
        "deep": "[" * 100_000,
        "large": " " * (13 << 20),
    }
    for name, each in changed.items():
        (tmp_path / "m.json").write_text(each, encoding="utf-8")
        told = complaint(f"campaign verify http://127.0.0.1:9/x --manifest {tmp_path}/m.json "
                         f"--key {folder}/k.pub")  # fmt: skip
        assert "cannot reach" not in told, name
        if name == "future":
            assert "of version 2; this software reads 1" in told
        if name in ("gamma", "script", "signature", "no base64"):
            assert "not signed with this key" in told
    new_key(tmp_path / "other")
    other = signed.replace(f"{folder}/k.pub", f"{tmp_path}/other.pub")
    assert "not signed with this key" in complaint(f"campaign verify http://127.0.0.1:9/x {other}")


def test_what_is_signed_is_still_checked(folder: Path, tmp_path: Path, signed: str) -> None:
    """Whoever holds the key can sign what is no manifest."""
    manifest = Manifest.read(folder / "m.json", public_key(folder / "k.pub"))
    for files in ({"../../x": "0" * 64}, {"a b": "0" * 64}, {"a": "0"}):
        odd = replace(manifest, published=replace(manifest.published, files=files))
        (tmp_path / "m.json").write_bytes(odd.signed(private_key(folder / "k")))
        with pytest.raises(FileError):
            Manifest.read(tmp_path / "m.json", public_key(folder / "k.pub"))


def test_a_manifest_of_other_scripts_is_told_of(
    proxy: Proxy, folder: Path, tmp_path: Path, signed: str
) -> None:
    """Signed does not mean published: this package's own files are known here."""
    manifest = Manifest.read(folder / "m.json", public_key(folder / "k.pub"))
    published = replace(manifest.published, files={**manifest.published.files, "x.js": "0" * 64})
    for version, told in ((published.version, "names other files than this version"), ("9", None)):
        other = replace(manifest, published=replace(published, version=version))
        (tmp_path / "m.json").write_bytes(other.signed(private_key(folder / "k")))
        line = f"campaign verify {proxy.address}/health --manifest {tmp_path}/m.json"
        found = run_json(f"{line} --key {folder}/k.pub", 3)
        assert any(told is None or told in each for each in found["differences"])
        assert bool(found["notes"]) is (told is None)


# --- the form as one file


MADE = """
import os, sys
os.umask(int(sys.argv[2], 8))
from sfumato.cli import app
app(["campaign", "form", "c.toml", "--server", "https://example.org", "-o", sys.argv[1]])
"""


@pytest.mark.parametrize("mechanism", ["gamma-diagonal", "questionnaire"])
def test_the_form_is_the_same_bytes_wherever_it_is_made(tmp_path: Path, mechanism: str) -> None:
    made = []
    for place, (seed, zone, words, umask) in enumerate(
        [("0", "UTC", "C", "000"), ("4711", "Pacific/Kiritimati", "de_DE.UTF-8", "077")]
    ):
        folder = tmp_path / f"folder {place}"
        folder.mkdir()
        text = CAMPAIGN.replace("gamma-diagonal", mechanism)
        (folder / "c.toml").write_text(text, encoding="utf-8")
        given = {"PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": words, "LANG": words}
        command = [sys.executable, "-c", MADE, "form.html", umask]
        done = subprocess.run(command, cwd=folder, env=os.environ | given, capture_output=True)
        assert done.returncode == 0, done.stderr
        made.append((folder / "form.html").read_bytes())
    assert made[0] == made[1]


def test_the_form_does_not_depend_on_the_day(folder: Path, tmp_path: Path) -> None:
    """`open` changes with the day, so it is left to the days that the file carries."""
    from sfumato.collect.form import single_file

    document = CampaignFile.load(folder / "c.toml").campaign.document()
    forms = {
        single_file(document | {"open": each}, "https://example.org") for each in (True, False)
    }
    assert len(forms) == 1 and '"open"' not in forms.pop().partition("sfumato-strings")[0]
    other = single_file(document | {"round": 2}, "https://example.org")
    assert other != single_file(document, "https://example.org")
