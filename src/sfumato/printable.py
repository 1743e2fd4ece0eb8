"""Printable: text without what would move a terminal's cursor, change its colours or turn its
direction; labels come from files, and files may hold anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from textwrap import wrap

REPLACEMENT = "\ufffd"
# Controls C0 (but tab and newline), DEL and C1; marks that turn the direction of writing; breaks of
# lines and paragraphs; letters without width, but for the two joiners that scripts need; and halves
# of letters, which no encoding takes.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
VALUED = re.compile(r"(?<= )(--?[a-z][\w-]*) (?=[^- ])")  # an option before its value
_BREAK = re.compile(r" *[\n\t]\s*")


def plain(text: str) -> str:
    """The text with a replacement mark for whatever a terminal would not show but obey.

    >>> plain("red \\x1b[31m and turned \\u202e")
    'red \ufffd[31m and turned \ufffd'
    """
    return _UNPRINTABLE.sub(REPLACEMENT, text)


def one_line(text: str) -> str:
    """The same on one line: a blank for each break.

    >>> one_line("two\\n  lines")
    'two lines'
    """
    return _BREAK.sub(" ", plain(text))


def escaped(text: str) -> str:
    """JSON or TOML text in which the same marks are written as escapes, so that nothing is lost.

    >>> escaped('"a\\u202eb"')
    '"a\\\\u202eb"'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_number(value: float) -> float | None:
    """The number as JSON may hold it, which has neither infinity nor "not a number".

    >>> json_number(0.5), json_number(float("inf"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def percent(share: float, decimals: int = 1) -> str:
    """A share in per cent, as it is written everywhere.

    >>> percent(0.1234), percent(0.05, 0)
    ('12.3 %', '5 %')
    """
    return f"{100 * share:.{decimals}f} %"


def upwards(value: Fraction | float, figures: int = 4) -> float:
    """The number rounded up to so many figures: what is shown of a promise is not better than it
    is. A float that is off in its last digits is not; a fraction is exact.

    >>> upwards(2.9444), upwards(19.000000000000004), upwards(0.0)
    (2.945, 19.0, 0.0)
    >>> upwards(Fraction(19 * 10**15 + 4, 10**15))
    19.01
    """
    return _to_figures(value, figures, math.ceil, 1 - 2**-48)


def downwards(value: Fraction | float, figures: int = 4) -> float:
    """The number rounded down to so many figures: what is left of a budget is not more than it is.

    >>> downwards(3.05561), downwards(10.9996), downwards(6 - 5.9)
    (3.055, 10.99, 0.1)
    """
    return _to_figures(value, figures, math.floor, 1 + 2**-47)


def _to_figures(
    value: Fraction | float, figures: int, towards: Callable[[Fraction], int], slack: float
) -> float:
    try:
        near = float(value)
    except OverflowError:
        return math.inf
    if not near or not math.isfinite(near):
        return near
    exact = value if isinstance(value, Fraction) else Fraction(near * slack)
    unit = Fraction(10) ** (figures - 1 - math.floor(math.log10(abs(near))))
    return float(towards(exact * unit) / unit)


def typed(command: str, room: int | None = None) -> list[str]:
    """What to type, a line each, that a shell takes as it is: commands that follow each other
    (`&&`) below one another, one longer than the room in lines that are marked to go on.

    >>> typed("sfumato plan a.csv --rows 40 && sfumato demo", 20)
    ['sfumato plan a.csv \\\\', '  --rows 40 &&', 'sfumato demo']
    """
    each = [_in_lines(part, room) for part in command.split(" && ")]
    return [line for lines in each[:-1] for line in (*lines[:-1], f"{lines[-1]} &&")] + each[-1]


def _in_lines(command: str, room: int | None) -> list[str]:
    if room is None or set("'\"\\") & set(command):  # quotes hold words together
        return [command]
    held = VALUED.sub("\\1\u00a0", command)  # an option and its value stay on a line
    lines = wrap(held, max(room, 20), break_long_words=False, break_on_hyphens=False)
    lines = [line.replace("\u00a0", " ") for line in lines]
    first, *rest = [f"{line} \\" for line in lines[:-1]] + lines[-1:]
    return [first, *(f"  {line}" for line in rest)]
