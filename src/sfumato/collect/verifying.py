"""Verifying: whether a server hands out what is published, to every browser and in every language.

A server can show one face to a tester and another to a respondent. This asks as several browsers
do; what it cannot look like is someone else's network, so verify from where you answer.
"""

from __future__ import annotations

import hashlib
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa

from sfumato.collect.assets import Assets, chosen_language, kind_of, root_of
from sfumato.collect.campaign import Campaign, exactly, frozen_parts
from sfumato.collect.canonical import as_json, canonical, differences
from sfumato.collect.client import Survey
from sfumato.collect.headers import SHARED, Headers, file_headers, page_headers
from sfumato.collect.language import LANGUAGES
from sfumato.collect.manifest import Manifest, Published
from sfumato.collect.transport import Address, CollectorError, HttpAnswer, Transport
from sfumato.errors import ParameterError, SfumatoError, listing
from sfumato.privacy.guarantee import PRIOR
from sfumato.untrusted import MOST_JSON_BYTES, parsed_json, refuse_malformed, shown

PATIENCE = 10.0  # seconds for which an unanswered request is tried again
MOST_SECONDS = 600.0  # for all requests together
NOT_THERE = "the server answers 404"
MOST_NAMED = 8  # places at which two campaigns differ that are listed

# As whom to ask. A server that treats one of them otherwise is found out; one that knows this tool
# by its TLS, its network or its haste is not.
BROWSERS = {
    "Chrome": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/131.0.0.0 Safari/537.36",
    "Firefox": "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
    "Safari on an iPhone": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) "
    "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
    "Chrome on Android": "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/131.0.0.0 Mobile Safari/537.36",
    "curl": "curl/8.11.0",
}
# What Chromium says of itself beside its name.
_CHROMIUM = {
    name: {
        "sec-ch-ua": '"Google Chrome";v="131", "Chromium";v="131", "Not_A Brand";v="24"',
        "sec-ch-ua-mobile": f"?{mobile}",
        "sec-ch-ua-platform": f'"{system}"',
    }
    for name, mobile, system in (("Chrome", 0, "Windows"), ("Chrome on Android", 1, "Android"))
}
ACCEPTED = (
    "en-US,en;q=0.9",
    "de-DE,de;q=0.9,en;q=0.5",
    "fr-FR,fr;q=0.8,en-US;q=0.5,en;q=0.3",
    "es-ES,es;q=0.9",
    "pt-BR,pt;q=0.9",
    "",
)
# How a page is come by: typed, behind a link of another site, and loaded again; and all else: from
# the server's own page, and from one of another site with the form in it.
ELSEWHERE = "https://example.org"
_CROSS_SITE = {"sec-fetch-site": "cross-site"}
PAGE_WAYS: tuple[dict[str, str], ...] = (
    {},
    {"referer": f"{ELSEWHERE}/", **_CROSS_SITE},
    {"cache-control": "max-age=0"},
)
WAYS: tuple[dict[str, str], ...] = ({}, {"origin": ELSEWHERE, **_CROSS_SITE})
QUERIES = ("", *(f"?lang={language}" for language in LANGUAGES), "?utm_source=mail")
# What a browser says of itself, and of each sort of thing that it asks for.
_PAGE = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_IMAGE = "image/avif,image/webp,image/apng,"
_CHROMIUM_PAGE = f"{_PAGE.replace('*/*', _IMAGE + '*/*')},application/signed-exchange;v=b3;q=0.7"
_ANYTHING = {"accept": "*/*", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
_FETCHED: dict[str, Mapping[str, str]] = {
    "document": {
        "accept": _PAGE,
        "sec-fetch-mode": "navigate",
        "sec-fetch-site": "none",
        "sec-fetch-user": "?1",
        "upgrade-insecure-requests": "1",
    },
    "empty": _ANYTHING,  # by a script's own request
    "script": _ANYTHING,
    "style": _ANYTHING | {"accept": "text/css,*/*;q=0.1", "sec-fetch-mode": "no-cors"},
    "image": _ANYTHING
    | {"accept": f"{_IMAGE}image/svg+xml,image/*,*/*;q=0.8", "sec-fetch-mode": "no-cors"},
}
_FETCHED_AS = {".js": "script", ".css": "style", ".svg": "image"}
# As the form asks for the campaign: it takes none that was kept.
FRESH = {"cache-control": "no-cache", "pragma": "no-cache"}

# Of any value: they neither load, move nor keep anything but the name of the server itself.
HARMLESS = frozenset(
    (
        "accept-ranges", "age", "connection", "content-encoding", "content-length", "date", "etag",
        "keep-alive", "last-modified", "server", "strict-transport-security", "transfer-encoding",
        "vary", "via", "x-frame-options",
    )
)  # fmt: skip
# A browser sends these back with what it kept, so on a file that is kept for a year they name it.
REMEMBERED = frozenset(("etag", "last-modified"))
# Another protocol at the same host is where a browser may go on; another host is not.
_SAME_HOST = re.compile(r'(?:h[23](?:-\d+)?=":\d+"(?:; ?(?:ma=\d+|persist=1))*(?:, ?|$))+|clear')


@dataclass(frozen=True)
class CampaignSeen:
    """A campaign as its server describes it, with what was computed anew from its integers."""

    name: str
    round: int
    hash: str
    gamma: str
    epsilon: float
    posterior: float  # what 5 % likely becomes at most
    promise: str
    sent_as_is: tuple[str, ...]


@dataclass(frozen=True)
class Verified:
    """How what a server hands out compares with what is published; no differences means the same.

    The digest is that of the manifest, and there only where nothing differs: what a dishonest
    server would like to be taken for is not repeated.
    """

    url: str
    version: str
    files: int
    requests: int
    campaign: CampaignSeen | None
    digest: str | None
    notes: list[str]
    differences: list[str]


def verify(
    url: str, *, campaign: Campaign | None = None, manifest: Manifest | None = None
) -> Verified:
    """Fetch page, files and campaign as browsers do, and compare them with a manifest, or else with
    the installed package; the campaign with a file where one is given.
    """
    address = _form_at(url)
    installed = Published.of(Assets.load())
    published = installed if manifest is None else manifest.published
    ends = time.monotonic() + MOST_SECONDS
    with closing(Transport(address, patience=PATIENCE, ends=ends)) as transport:
        look = _Look(transport)
        document = _look_at_json(look, "the campaign", address.campaign, ACCEPTED, FRESH)
        if look.everywhere(NOT_THERE):
            raise CollectorError(f"{address.origin} has no campaign '{address.name}'", status=404)
        _look_at_pages(look, _pages(url, address), published)
        _look_at_files(look, published)
        listed = _look_at_json(look, "the list of files", "/v1/manifest", ACCEPTED[:1], {})
    seen, wrong = _checked(document)
    found = [*_list_differences(listed, published), *look.differences(), *wrong]
    if document is not None and campaign is not None:
        found += _campaign_differences(document, campaign.document(), "the file")
    if document is not None and manifest is not None:
        stated = {**manifest.campaign, "open": document.get("open")}  # which changes with the day
        found += _campaign_differences(document, stated, "the manifest")
    if published.version == installed.version and published != installed:
        found.append("the manifest: it names other files than this version has")
    notes = list(_notes(campaign, manifest, installed.version))
    short = None if found or document is None else Manifest.of(published, document).digest
    requests = look.asked.total()
    return Verified(
        url, published.version, len(published.files), requests, seen, short, notes, found
    )


def _form_at(url: str) -> Address:
    address = Address.parse(url)
    if "/dashboard" in urlsplit(url).path:
        raise ParameterError(
            "a dashboard asks nothing of anyone, and is not verified",
            hint=f"the form is at {address.origin}/{address.name}",
        )
    return address


def _notes(campaign: Campaign | None, manifest: Manifest | None, version: str) -> Iterator[str]:
    """What was not compared, or with something else than this package."""
    if campaign is None and manifest is None:
        yield (
            "the campaign was compared with itself alone; give its file, or a manifest, to see "
            "whether it is the one it should be"
        )
    if manifest is not None and manifest.published.version != version:
        yield (
            f"the manifest is of version {manifest.published.version} and this is {version}: "
            "scripts were compared with the manifest, not with this package"
        )


def _pages(url: str, address: Address) -> list[str]:
    """The form's address with every query, and as it was typed."""
    bare = f"/{address.name}"
    parts = urlsplit(url)
    typed = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        typed += f"?{quote(parts.query, safe='/%:@!$&()*+,;=?~')}"
    of_form = not parts.path.startswith("/v1/") and "/dashboard" not in parts.path
    return list(dict.fromkeys([*(bare + query for query in QUERIES), *([typed] * of_form)]))


@dataclass(eq=False)
class _Look:
    """Looks at a server, and keeps what differed from what was expected, and for whom."""

    transport: Transport
    asked: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def at(
        self,
        what: str,
        path: str,
        expected: Headers,
        sha256: str | None,
        *,
        browser: str,
        accepted: str = ACCEPTED[0],
        fetched: str = "empty",
        way: dict[str, str],
    ) -> bytes | None:
        """The bytes at a path for a browser that comes by a way; None where they cannot be had."""
        own = {"origin": self.transport.address.origin} if fetched == "script" else {}
        answer = self.transport.look(path, _headers(browser, accepted, fetched) | own | way)
        body = _unpacked(answer)
        self.asked[what] += 1
        for message in _wrong(answer, body, expected, sha256):
            asked_as = f"{browser}, {accepted.partition(',')[0] or 'no language'}, {path}"
            self.found.setdefault((what, message), []).append(asked_as)
        return body if answer.status == 200 else None

    def differences(self) -> Iterator[str]:
        """Each difference once: where it is, and how many saw it where not all did."""
        for message in dict.fromkeys(message for _, message in self.found):
            if len(self.asked) > 1 and self.everywhere(message):
                yield f"everything: {message}"
                continue
            for what, seen in self._places(message):
                every = self.asked[what]
                some = f" ({len(seen)} of {every} requests, the first as {seen[0]})"
                yield f"{what}: {message}{'' if len(seen) == every else some}"

    def everywhere(self, message: str) -> bool:
        """Whether every answer has had this difference."""
        return sum(len(seen) for _, seen in self._places(message)) == self.asked.total()

    def _places(self, message: str) -> Iterator[tuple[str, list[str]]]:
        return ((what, seen) for (what, said), seen in self.found.items() if said == message)


def _headers(browser: str, accepted: str, fetched: str) -> dict[str, str]:
    """What a browser sends along with such a request."""
    language = {"accept-language": accepted} if accepted else {}
    if browser == "curl":
        return {"user-agent": BROWSERS[browser], "accept": "*/*", **language}
    found = {
        "connection": "keep-alive",
        "user-agent": BROWSERS[browser],
        **language,
        "accept-encoding": "gzip, deflate, br" + ", zstd" * ("iPhone" not in browser),
        **_CHROMIUM.get(browser, {}),
        **_FETCHED[fetched],
        "sec-fetch-dest": fetched,
    }
    if browser in _CHROMIUM and fetched == "document":
        found["accept"] = _CHROMIUM_PAGE
    return found


def _look_at_pages(look: _Look, paths: Iterable[str], published: Published) -> None:
    """A changed page could load other scripts, so every language is asked for in every way."""
    for path in paths:
        asked = parse_qs(urlsplit(path).query).get("lang", [None])[-1]
        for browser in BROWSERS:
            for accepted, way in product(ACCEPTED, PAGE_WAYS):
                language = chosen_language(asked, accepted, LANGUAGES)
                look.at(
                    "the form's page",
                    path,
                    page_headers(published.policy),
                    published.pages.get(language, ""),
                    browser=browser,
                    accepted=accepted,
                    fetched="document",
                    way=way,
                )


def _look_at_files(look: _Look, published: Published) -> None:
    """Every file, at the address that holds its hash and, for forms in other pages, without it."""
    for name, sha256 in published.files.items():
        kind = kind_of(name)
        fetched = _FETCHED_AS.get(name[name.rfind(".") :], "empty")
        for root, kept in ((root_of(published.digest), True), ("/static/", False)):
            path, expected = f"{root}{name}", file_headers(kind, kept=kept)
            for browser, way in product(BROWSERS, WAYS):
                look.at(name, path, expected, sha256, browser=browser, fetched=fetched, way=way)


def _look_at_json(
    look: _Look, what: str, path: str, languages: Iterable[str], more: dict[str, str]
) -> dict[str, Any] | None:
    """The JSON at a path, the same for everyone; None where there is none."""
    first: bytes | None = None
    for accepted, browser, way in product(languages, BROWSERS, WAYS):
        sha256 = None if first is None else hashlib.sha256(first).hexdigest()
        way = more | way
        body = look.at(what, path, SHARED, sha256, browser=browser, accepted=accepted, way=way)
        first = body if first is None else first
    if first is None:
        return None
    try:
        return parsed_json(first, "it")
    except SfumatoError as error:
        look.found[what, str(error)] = [""] * look.asked[what]
        return None


def _wrong(
    answer: HttpAnswer, body: bytes | None, expected: Headers, sha256: str | None
) -> Iterator[str]:
    """What is wrong with an answer, in words."""
    if answer.status != 200:
        target = dict(answer.headers).get("location")
        moved = "" if target is None else f" and moves the browser to {_quoted(target)}"
        yield f"the server answers {answer.status}{moved}"
        return
    if answer.odd:
        yield "a line of its headers is not of HTTP, behind which browsers may read another header"
    yield from _wrong_headers(answer.headers, expected)
    if body is None:
        coded = ", ".join(_values(answer.headers, "content-encoding"))
        yield f"it is compressed in a way that cannot be unpacked here ({_quoted(coded)})"
    elif sha256 is not None and hashlib.sha256(body).hexdigest() != sha256:
        yield "other bytes than those expected"


def _wrong_headers(found: Iterable[tuple[str, str]], expected: Headers) -> Iterator[str]:
    """Headers that are missing, changed, or neither ours nor known to be harmless."""
    found = list(found)
    known = {name.decode(): value.decode() for name, value in expected}
    harmless = HARMLESS if known["cache-control"] == "no-store" else HARMLESS - REMEMBERED
    for name in dict.fromkeys(name for name, _ in found):
        if name not in known and not _harmless(name, _values(found, name), harmless):
            value = _quoted(", ".join(_values(found, name)))
            yield f"the header {_quoted(name)} is neither ours nor known to be harmless: {value}"
    for name, value in known.items():
        if name in harmless:
            continue
        values = _values(found, name)
        if not values:
            yield f"the header '{name}' is missing"
        elif values != [value]:
            yield f"the header '{name}' is {_quoted(', '.join(values))}, not {_quoted(value)}"


def _harmless(name: str, values: list[str], harmless: frozenset[str]) -> bool:
    if name == "alt-svc":
        return all(_SAME_HOST.fullmatch(value) for value in values)
    return name in harmless


def _values(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    return [value for each, value in headers if each == name]


def _quoted(text: str) -> str:
    return f"'{text if len(text) <= 240 else text[:240] + '…'}'"


def _unpacked(answer: HttpAnswer) -> bytes | None:
    """The bytes of an answer as a browser has them; None where they cannot be unpacked."""
    coded = ", ".join(_values(answer.headers, "content-encoding")).strip().lower()
    if coded in ("", "identity"):
        return answer.body
    if coded in ("br", "zstd"):
        codec = "brotli" if coded == "br" else coded
        try:
            with pa.CompressedInputStream(pa.BufferReader(answer.body), codec) as stream:
                return bytes(stream.read(MOST_JSON_BYTES + 1))
        except OSError:
            return None
    if coded not in ("gzip", "x-gzip", "deflate"):
        return None
    unpacking = zlib.decompressobj(zlib.MAX_WBITS + (0 if coded == "deflate" else 16))
    try:
        body = unpacking.decompress(answer.body, MOST_JSON_BYTES + 1)
    except zlib.error:
        return None
    return body if unpacking.eof and not unpacking.unused_data else None


def _list_differences(served: Mapping[str, Any] | None, published: Published) -> list[str]:
    """What the server itself says of its files, where it says something else."""
    if served is None or served == published.to_dict():
        return []
    if served.get("version") != published.version:
        return [
            f"the list of files: it is that of version {shown(served.get('version'))}; compared "
            f"were those of {published.version}"
        ]
    return _named(
        f"the list of files: {_path(path)} is {shown(there)}, not {shown(here)}"
        for path, here, there in differences(published.to_dict(), served)
    )


def _named(found: Iterable[str]) -> list[str]:
    """The first of many differences, and how many more there are."""
    every = list(found)
    more = len(every) - MOST_NAMED
    return [*every[:MOST_NAMED], *([f"and {more:,} more of these"] if more > 0 else [])]


def _checked(document: Mapping[str, Any] | None) -> tuple[CampaignSeen | None, list[str]]:
    """What a campaign amounts to, computed anew from its integers, and what it says otherwise."""
    if document is None:
        return None, []
    try:
        with refuse_malformed("its JSON"):
            survey = Survey(document)
            stated = {name: document[name] for name in ("domain", "program", "round")}
            read = frozen_parts(survey.domain, survey.program, int(document["round"]))
            seen = CampaignSeen(
                str(document["name"]),
                int(document["round"]),
                survey.hash,  # which it computed anew
                exactly(survey.guarantee),
                survey.guarantee.epsilon,
                survey.guarantee.worst_posterior(PRIOR),
                exactly(survey.promise),
                tuple(survey.sent_as_is.values()),
            )
            wrong = []
            if canonical(stated) != canonical(read):
                places = listing(_path(path) for path, _, _ in differences(stated, read))
                wrong.append(
                    f"the campaign: this version does not read it as it is written: {places}"
                )
            return seen, wrong
    except SfumatoError as error:
        return None, [f"the campaign: {error}"]


def _campaign_differences(
    document: Mapping[str, Any], stated: Mapping[str, Any], where: str
) -> list[str]:
    """Where a server's campaign says something else than it should."""
    return _named(
        f"the campaign: {_path(path)} is {shown(there)}, and {shown(here)} in {where}"
        for path, here, there in differences(as_json(stated), as_json(document))
    )


def _path(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path)) or "it"
