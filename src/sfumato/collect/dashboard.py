"""Dashboard: what an owner asks of a campaign, in this order, as one HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from html import escape

from sfumato import __version__
from sfumato.collect import drawing
from sfumato.collect.alarms import RATE
from sfumato.collect.campaign import NO_ANSWER, Campaign
from sfumato.collect.figures import (
    CAVEATS,
    TOO_FEW,
    Bar,
    Figures,
    PairFigures,
    QuestionFigures,
    strongest,
)
from sfumato.collect.language import Language
from sfumato.collect.store import utc_today
from sfumato.printable import downwards, upwards

MOST_BARS = 30  # of one question; the largest are shown
# What no mechanism's promise covers, in every language; what is said of one mechanism is English.
CAVEAT_WORDS = dict(zip(CAVEATS, ("caveat_once", "caveat_again", "caveat_crowd"), strict=True))


@dataclass(frozen=True)
class Inquiry:
    """What the owner asked with SQL: the statement, and the answer or the complaint."""

    sql: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    error: str | None = None


@dataclass(frozen=True)
class Dashboard:
    """The page of one campaign in one language; `owner` says whether whoever looks may see all."""

    campaign: Campaign
    figures: Figures
    words: Language
    owner: bool = True
    pair: tuple[str, str] | None = None
    asked: Inquiry = Inquiry()

    def page(self) -> str:
        """The whole page."""
        title = f"{self._title} – {self.words('dashboard')}"
        sections = [
            self._working(),
            self._say(),
            self._together(),
            self._longer(),
            self._trust(),
            self._promised(),
            self._take(),
        ]
        fresh = (
            f'<p><label class="check"><input type="checkbox" id="fresh" checked> '
            f"{self._w('fresh')}</label></p>"
        )
        return html_page(
            self.words.name,
            title,
            f"<header><h1>{escape(self._title)}</h1>{self._elsewhere()}{fresh}</header>"
            f'<main data-figures="{self._address}/figures">{"".join(sections)}</main>',
        )

    def _elsewhere(self) -> str:
        """Links to the form and, from what anyone may see, to what the owner sees."""
        links = f'<p><a href="/{self.campaign.name}">{self._w("form")}</a></p>'
        if self.owner:
            return links
        return f'{links}<p><a href="{self._address}/owner">{self._w("owners_view")}</a></p>'

    @property
    def _address(self) -> str:
        """Where what belongs to the page stands. The owner's is asked for a token, which a browser
        then hands out below the address by itself, and nowhere else.
        """
        public = f"/{self.campaign.name}/dashboard"
        return f"{public}/owner" if self.owner else public

    @property
    def _title(self) -> str:
        return self.words.of(self.campaign.title, self.campaign.name)

    def _w(self, key: str, **values: object) -> str:
        """Words, made safe."""
        return escape(self.words(key, **values))

    def _section(self, key: str, inside: str) -> str:
        return (
            f'<section aria-labelledby="{key}"><h2 id="{key}">{self._w(key)}</h2>{inside}</section>'
        )

    # Is it working?

    def _working(self) -> str:
        figures, words = self.figures, self.words
        facts = [
            (words("reports"), words.number(figures.reports)),
            (words("state"), words(f"state_{figures.state}")),
            (words("round"), str(figures.round)),
        ]
        drawn = ""
        if self.owner:
            today = {day.day: day.outcomes for day in figures.days}.get(utc_today().isoformat(), {})
            facts.append((words("today"), words.number(today.get("stored", 0))))
            refused = _refused(figures)
            shown = ", ".join(
                f"{words.words.get(f'refused_{kind}', kind)} {words.number(count)}"
                for kind, count in refused.items()
            )
            facts.append((words("refused"), shown or words("none")))
            if figures.store_bytes is not None:
                facts.append((words("disk"), f"{words.number(figures.store_bytes / 1e6, 1)} MB"))
            drawn = self._month()
        elif not figures.enough:
            drawn = f"<p>{self._w('not_enough', least=self.campaign.dashboard.least)}</p>"
        else:
            drawn = f"<p>{self._w('in_steps', step=self.campaign.dashboard.step)}</p>"
        return self._section("working", f"{_facts(facts)}{drawn}")

    def _month(self) -> str:
        stored = {day.day: day.outcomes for day in self.figures.days}
        days = [(utc_today() - timedelta(back)).isoformat() for back in range(29, -1, -1)]
        counts = [(day, stored.get(day, {}).get("stored", 0)) for day in days]
        keys = ("stored", "repeated", "withdrawn")
        rows = [
            [day, *(self.words.number(stored[day].get(key, 0)) for key in keys)]
            for day in days
            if day in stored
        ]
        headings = [self.words(key) for key in ("day", *keys)]
        return self._figure(
            self.words("month"), drawing.days(counts, self.words), table(headings, rows)
        )

    # What do people say?

    def _say(self) -> str:
        shown = "".join(map(self._question, self.figures.questions))
        times = self.figures.most_counted
        bounded = "" if times is None else f"<p>{self._w('estimate_bounded', times=times)}</p>"
        return (
            self._section("say", f"<p>{self._w('say_words')}</p>{bounded}{shown}") if shown else ""
        )

    def _question(self, found: QuestionFigures) -> str:
        text = self._question_text(found.name)
        if found.limit is not None:
            return f"<h3>{escape(text)}</h3>{self._limit(found.limit)}"
        bars = sorted(found.bars, key=lambda bar: -bar.share.value)[:MOST_BARS]
        bars = found.bars if len(found.bars) <= MOST_BARS else bars
        labels = [self._label(found.name, bar.label) for bar in bars]
        notes = [self.words("too_few")] if found.too_few else []
        reach = [bar.forged for bar in bars if bar.forged is not None]
        if reach:
            notes.append(self.words("forged_bar", points=self.words.points_up(max(reach))))
        drawn = drawing.bars(bars, labels, self.words, text)
        twin = table(
            [self.words(key) for key in ("answer", "share", "interval", "forged")],
            [self._bar_row(*each) for each in zip(bars, labels, strict=True)],
        )
        return self._figure(text, drawn, twin, notes)

    def _limit(self, limit: str) -> str:
        """Why nothing is shown; what is said of one mechanism is English."""
        if limit == TOO_FEW:
            return f"<p>{self._w('too_few_reports')}</p>"
        return f'<p lang="en">{escape(limit)}</p>'

    def _bar_row(self, bar: Bar, label: str) -> list[str]:
        words, share = self.words, bar.share
        interval = words.interval(share.low, share.high)
        forged = "" if bar.forged is None else words.points_up(bar.forged)
        return [label, words.percent(share.value), interval, forged]

    def _figure(self, title: str, drawn: str, twin: str, notes: Iterable[str] = ()) -> str:
        told = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return (
            f"<figure><figcaption><h3>{escape(title)}</h3>{told}</figcaption>"
            f'<div class="drawn" tabindex="0">{drawn}</div>'
            f"<details><summary>{self._w('table')}</summary>{twin}</details></figure>"
        )

    def _question_text(self, name: str) -> str:
        question = self.campaign.questions.get(name)
        return self.words.of(question.text, name) if question else name

    def _titles(self, names: Iterable[str]) -> str:
        return " × ".join(map(self._question_text, names))

    def _label(self, name: str, label: str) -> str:
        question = self.campaign.questions.get(name)
        texts = question.values.get(label) if question else None
        if texts:
            return self.words.of(texts, label)
        return self.words("no_answer") if label == NO_ANSWER else label

    # Do two answers go together?

    def _together(self) -> str:
        pairs = self.figures.pairs
        if not self.figures.questions:
            return ""
        if not pairs:
            return self._section("together", f"<p>{self._w('no_pairs')}</p>")
        chosen = next((each for each in pairs if tuple(each.columns) == self.pair), None)
        shown = chosen or strongest(pairs) or pairs[0]
        return self._section("together", self._pair_choice(pairs, shown) + self._pair(shown))

    def _pair_choice(self, pairs: Sequence[PairFigures], shown: PairFigures) -> str:
        options = "".join(
            f'<option value="{escape(",".join(each.columns))}"'
            f"{' selected' if each is shown else ''}>"
            f"{escape(self._titles(each.columns))}</option>"
            for each in pairs
        )
        return (
            f'<form method="get"><label for="pair">{self._w("pair")}</label> '
            f'<select id="pair" name="pair">{options}</select> '
            f"<button>{self._w('show')}</button></form>"
        )

    def _pair(self, pair: PairFigures) -> str:
        first, second = pair.columns
        title = self._titles(pair.columns)
        if pair.limit is not None:
            return self._limit(pair.limit)
        rows = [self._label(first, label) for label in pair.rows]
        columns = [self._label(second, label) for label in pair.labels]
        words = self.words
        cells = [
            [row, *(f"{words.percent(v)} ± {words.number(100 * e, 1)}" for v, e in both)]
            for row, both in zip(
                rows,
                (zip(v, e, strict=True) for v, e in zip(pair.values, pair.stderrs, strict=True)),
                strict=True,
            )
        ]
        titles = map(self._question_text, pair.columns)
        note = words("together_words", **dict(zip(("first", "second"), titles, strict=True)))
        drawn = drawing.heat_map(pair, rows, columns, words, note)
        return self._figure(
            title, drawn, table([self._question_text(first), *columns], cells), [note]
        )

    # How much longer?

    def _longer(self) -> str:
        rows = []
        for found in self.figures.questions:
            if found.points is None:
                continue
            now = self.words("points", points=self.words.number(found.points, 1))
            rows.append([self._question_text(found.name), now, self._next(found)])
        headings = [self.words(key) for key in ("question", "now", "next")]
        return self._section("longer", table(headings, rows)) if rows else ""

    def _next(self, found: QuestionFigures) -> str:
        if found.next_points is None or found.more_people is None:
            return ""
        digits = 2 if found.next_points < 0.1 else 1 if found.next_points < 1 else 0
        points = self.words.number(found.next_points, digits)
        return self.words("more", points=points, people=self.words.number(found.more_people))

    # Can I trust it?

    def _trust(self) -> str:
        told = [
            self.words(f"alarm_{alarm.kind}", question=self._titles(alarm.columns))
            for alarm in self.figures.alarms
        ]
        kind = ' class="alarm"' if told else ""
        lines = told or [self.words("no_alarms")]
        shown = "".join(f"<li{kind}>{escape(line)}</li>" for line in lines)
        return self._section(
            "trust",
            f'<div role="status"><ul>{shown}</ul></div>{self._watched()}'
            f"<p>{self._w('one_answer')}</p>",
        )

    def _watched(self) -> str:
        """What would have been noticed, and how rarely honest people raise an alarm."""
        words, watch = self.words, self.figures.watch
        if not watch:
            return ""
        lines = (
            self._w(f"watch_{each.kind}", share=words.percent_up(each.notices, 2))
            for each in watch
            if each.notices is not None
        )
        shown = "".join(f"<li>{line}</li>" for line in lines)
        return f"<ul>{shown}</ul><p>{self._w('watch_rate', rate=words.number(100 * RATE))}</p>"

    # What was promised?

    def _promised(self) -> str:
        promise, words = self.figures.promise, self.words
        lines = [
            words(
                "gamma",
                gamma=words.figures(upwards(Fraction(promise.gamma), 6)),
                epsilon=words.figures(upwards(promise.epsilon)),
            ),
            words(
                "posterior",
                prior=words.percent(promise.prior, 0),
                posterior=words.percent_up(promise.posterior, 0),
            ),
        ]
        if promise.shuffled_epsilon is not None:
            hidden = words.figures(upwards(promise.shuffled_epsilon))
            lines.append(words("shuffled", epsilon=hidden, delta="10⁻⁶"))
        if promise.budget is not None:
            lines.append(words("budget", epsilon=words.figures(downwards(promise.budget))))
        shown = "".join(f"<p>{escape(line)}</p>" for line in lines) + _facts(
            [
                (words("mechanism"), self.campaign.mechanism.name),
                (words("made_by"), f"Sfumato {__version__}"),
            ]
        )
        caveats = "".join(map(self._caveat, promise.caveats))
        if promise.public:
            names = ", ".join(map(self._question_text, promise.public))
            caveats = f"<li>{self._w('caveat_public', names=names)}</li>{caveats}"
        return self._section("promised", f"{shown}<h3>{self._w('caveats')}</h3><ul>{caveats}</ul>")

    def _caveat(self, text: str) -> str:
        if text in CAVEAT_WORDS:
            return f"<li>{self._w(CAVEAT_WORDS[text])}</li>"
        return f'<li lang="en">{escape(text)}</li>'

    # Take it away

    def _take(self) -> str:
        start = self._address
        links = [(f"{start}/figures", "json"), (f"{start}/figures?format=csv", "csv")]
        if self.owner:
            links.insert(0, (f"{start}/export?format=parquet", "parquet"))
        shown = "".join(f'<li><a href="{at}">{self._w(key)}</a></li>' for at, key in links)
        return self._section("take", f"<ul>{shown}</ul>{self._sql_box() if self.owner else ''}")

    def _sql_box(self) -> str:
        asked = self.asked
        found = (
            f'<p class="alarm" role="alert" lang="en">{escape(asked.error)}</p>'
            if asked.error
            else ""
        )
        if asked.headings:
            found += table(asked.headings, asked.rows)
        found += "".join(f'<p lang="en">{escape(note)}</p>' for note in asked.notes)
        column = self.campaign.domain.axes[0].name  # of a basket its first item
        column = column if re.fullmatch(r"[^\W\d]\w*", column) else f'"{column}"'
        return (
            f'<form method="get" action="#take"><h3>{self._w("sql")}</h3><label for="sql">'
            f"{self._w('sql_words', column=column)}</label>"
            f'<textarea id="sql" name="sql" rows="3">{escape(asked.sql)}</textarea>'
            f"<button>{self._w('ask')}</button></form>{found}"
        )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table whose first column names its rows."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(map(_cell, row[1:])) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    """A cell; numbers without words stay in one line."""
    look = "" if any(map(str.isalpha, text)) else ' class="figure"'
    return f"<td{look}>{escape(text)}</td>"


def index_page(campaigns: Iterable[Campaign], language: str) -> str:
    """The campaigns that are open, each with a link to its form."""
    words = Language.load(language)
    items = "".join(
        f'<li><a href="/{each.name}">{escape(words.of(each.title, each.name))}</a></li>'
        for each in campaigns
    )
    title = words("campaigns")
    listed = f"<ul>{items}</ul>" if items else f"<p>{escape(words('no_campaigns'))}</p>"
    return html_page(words.name, title, f"<main><h1>{escape(title)}</h1>{listed}</main>")


def html_page(language: str, title: str, body: str) -> str:
    """A page of ours, with its style and script."""
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        '<link rel="icon" href="/static/icon.svg">'
        '<link rel="stylesheet" href="/static/dashboard.css">'
        '<script type="module" src="/static/dashboard.js"></script>'
        f"</head><body>{body}</body></html>"
    )


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    """Names and what they stand for."""
    pairs = "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in facts)
    return f"<dl>{pairs}</dl>"


def _refused(figures: Figures) -> dict[str, int]:
    """What was refused on all days, by reason."""
    totals: dict[str, int] = {}
    for day in figures.days:
        for outcome, count in day.outcomes.items():
            if outcome.startswith("refused "):
                kind = outcome.removeprefix("refused ")
                totals[kind] = totals.get(kind, 0) + count
    return totals
