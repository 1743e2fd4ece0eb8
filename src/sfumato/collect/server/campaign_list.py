"""Pages that are not a campaign's own: the list of what is open."""

from __future__ import annotations

from html import escape

from sfumato.collect.dashboard import html_page
from sfumato.collect.language import Language
from sfumato.collect.server.collector import Collector


def index_page(collector: Collector, language: str) -> str:
    """The campaigns that are open, each with a link to its form."""
    words = Language.load(language)
    open_now = [s.campaign for s in collector.served.values() if s.state == "open"]
    items = "".join(
        f'<li><a href="/{campaign.name}">{escape(words.of(campaign.title, campaign.name))}</a></li>'
        for campaign in open_now
    )
    title = words("campaigns")
    listed = f"<ul>{items}</ul>" if items else f"<p>{escape(words('no_campaigns'))}</p>"
    return html_page(words.name, title, f"<main><h1>{escape(title)}</h1>{listed}</main>")
