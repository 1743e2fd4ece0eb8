"""Animation: the README's moving picture, made from a seeded release.

`python -m docs_build.animation` writes `docs/blur.svg`: on the left what 200 people have, which a
sweep turns into what leaves their devices; on the right what the reports of more and more people
tell, with 95 % intervals, beside the true shares. Styles inside the file move it; where motion is
not wanted, its last state stands still.
"""

from __future__ import annotations

import sfumato as sf
from docs_build.running import DOCS
from sfumato.datasets.survey import survey

KEPT = DOCS / "blur.svg"
GAMMA, COLUMN = 3, "exercise"
CROWDS = (200, 1_000, 5_000, 20_000, 100_000)  # people whose reports are counted, one after another
COLOURS = ("#0072b2", "#e69f00", "#cc79a7")
ACROSS, DOWN, STEP = 20, 10, 17  # the dots
LEFT, TOP, FLOOR, HEIGHT = 24, 62, 232, 280  # of both halves; how high a share of 1 would be
WIDE, APART, BARS = 54, 92, 452  # the bars
SECONDS = 12  # of one round


def dots(codes: list[int]) -> str:
    """One path a colour: a dot is a line of no length with round ends."""
    places = [(LEFT + i % ACROSS * STEP, TOP + i // ACROSS * STEP) for i in range(len(codes))]
    return "".join(
        f'<path stroke="{colour}" d="'
        + "".join(f"M{x} {y}h0" for (x, y), of in zip(places, codes, strict=True) if of == code)
        + '"/>'
        for code, colour in enumerate(COLOURS)
    )


def bars(answers: list[sf.Answer], people: int) -> str:
    """The estimated shares of one crowd as bars with their intervals."""
    drawn = []
    for number, (answer, colour) in enumerate(zip(answers, COLOURS, strict=True)):
        x, middle = BARS + number * APART, BARS + number * APART + WIDE / 2
        high, low, top = (
            FLOOR - HEIGHT * min(max(count / people, 0), 0.66)
            for count in (answer.value, *answer.interval())
        )
        drawn.append(
            f'<rect x="{x}" y="{high:.1f}" width="{WIDE}" height="{FLOOR - high:.1f}"'
            f' fill="{colour}"/><path class="i" d="M{middle} {low:.1f}V{top:.1f}'
            f'M{middle - 7} {low:.1f}h14M{middle - 7} {top:.1f}h14"/>'
        )
    label = f"{people:,} reports"
    return "".join(drawn) + f'<text x="{BARS + APART + WIDE / 2}" y="274">{label}</text>'


def style() -> str:
    """The sweep over the dots, then one crowd after another."""
    first, each = 30, 70 / len(CROWDS)  # per cent of a round
    frames = []
    for number in range(len(CROWDS)):
        start = first + number * each
        end = f"{start + each:.1f}%{{opacity:0}}" if number + 1 < len(CROWDS) else ""
        frames.append(
            f"@keyframes s{number}{{0%,{start - 0.1:.1f}%{{opacity:0}}"
            f"{start:.1f}%,{start + each - 0.1:.1f}%{{opacity:1}}{end}}}"
        )
    last = len(CROWDS) - 1
    moving = "".join(f".s{n}{{animation:s{n} {SECONDS}s infinite}}" for n in range(len(CROWDS)))
    return (
        "text{font:14px system-ui,sans-serif;fill:#30343c;text-anchor:middle}"
        ".d path{stroke-width:12;stroke-linecap:round;fill:none}"
        ".i{stroke:#30343c;stroke-width:2;fill:none}.t{stroke:#30343c;stroke-dasharray:3 3}"
        f"[class^=s],.a{{opacity:0}}.s{last}{{opacity:1}}"
        "@media (prefers-reduced-motion:no-preference){"
        f".w{{animation:w {SECONDS}s infinite}}"
        f"@keyframes w{{0%,8%{{transform:scaleX(0)}}{first - 3}%,100%{{transform:none}}}}"
        f".a{{animation:a {SECONDS}s infinite}}.b{{animation:b {SECONDS}s infinite}}"
        "@keyframes a{0%,10%{opacity:1}12%,100%{opacity:0}}"
        "@keyframes b{0%,10%{opacity:0}12%,100%{opacity:1}}"
        f"{moving}{''.join(frames)}}}"
    )


def drawn() -> str:
    """The whole picture."""
    people, schema = survey(max(CROWDS), sf.seeded(1))
    domain = sf.Domain(tuple(each for each in schema.attributes if each.name == COLUMN))
    truth = sf.read(people, domain)
    mechanism = sf.GammaDiagonal.promising(sf.Guarantee(GAMMA), domain)
    reports = mechanism.perturb(truth.columns, sf.seeded(2))  # in the order of the records
    values = list(domain.attributes[0].labels)
    shown = ACROSS * DOWN
    true = 100 * GAMMA / (GAMMA + len(values) - 1)
    width, height = LEFT - 9 + ACROSS * STEP, DOWN * STEP + 4

    crowds = []
    for number, crowd in enumerate(CROWDS):
        release = sf.perturb(people.slice(0, crowd), mechanism, rng=sf.seeded(number))
        estimate = release.marginal([COLUMN])
        answers = [estimate.where(**{COLUMN: value}) for value in values]
        crowds.append(f'<g class="s{number}">{bars(answers, crowd)}</g>')
    exact = sf.Exact(truth).marginal([COLUMN])
    shares = [exact.where(**{COLUMN: value}).value / max(CROWDS) for value in values]
    truths = "".join(
        f'<path class="t" d="M{BARS + n * APART - 8} {FLOOR - HEIGHT * share:.1f}h{WIDE + 16}"/>'
        f'<text x="{BARS + n * APART + WIDE / 2}" y="{FLOOR + 18}">{value}</text>'
        for n, (value, share) in enumerate(zip(values, shares, strict=True))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 290" role="img">
<title>Each record is blurred; the crowd stays sharp</title>
<desc>Left: what 200 people have, then what leaves their devices under gamma {GAMMA}. Right: the
shares that the reports of more and more people give, with 95 % intervals; dashed: the truth.</desc>
<style>{style()}</style>
<rect width="740" height="290" fill="#fff"/>
<text class="a" x="{LEFT + width / 2 - 8}" y="30">what each person has</text>
<text x="{BARS + APART + WIDE / 2}" y="30">what the crowd's reports tell</text>
<g class="d">{dots(list(truth.columns[0][:shown]))}</g>
<clipPath id="c"><rect class="w" width="{LEFT + width}" height="290"/></clipPath>
<g class="d" clip-path="url(#c)"><rect x="{LEFT - 8}" y="{TOP - 8}" width="{width}"
height="{height}" fill="#fff"/>{dots(list(reports[0][:shown]))}</g>
<g class="b"><text x="{LEFT + width / 2 - 8}" y="30">what leaves each device</text>
<text x="{LEFT + width / 2 - 8}" y="274">{true:.0f} % are true; nobody knows which</text></g>
{"".join(crowds)}{truths}
</svg>
"""


if __name__ == "__main__":
    KEPT.write_text(drawn(), encoding="utf-8")
