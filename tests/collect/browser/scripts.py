"""How the tests talk to a page: modules imported there, promises awaited, elements waited for."""

from __future__ import annotations

import time
from typing import Any

PATIENCE = 60.0  # seconds: of a machine that does much else at the same time


def run(chromium: Any, body: str, *arguments: Any) -> Any:
    """The result of an async function body in the page; what it throws is raised here."""
    script = (
        "const done = arguments[arguments.length - 1];"
        f"(async (...given) => {{ {body} }})(...arguments)"
        ".then((value) => done({ value }), (error) => done({ error: `${error.kind} "
        "${error.stack}` }));"
    )
    found = chromium.execute_async_script(script, *arguments)
    assert "error" not in found, found["error"]
    return found.get("value")


def find(chromium: Any, selector: str) -> Any:
    """The first element of a selector, once it is there."""
    return wait(
        lambda: next(iter(chromium.find_elements("css selector", selector)), None), selector
    )


def wait(look: Any, what: str, seconds: float = PATIENCE) -> Any:
    """What a function finds, once it finds something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def text_of(chromium: Any, selector: str = "sfumato-survey") -> str:
    """What stands in an element."""
    return str(chromium.execute_script("return document.querySelector(arguments[0])?.innerText ?? "
                                       "''", selector))  # fmt: skip


def wait_for_text(chromium: Any, text: str, selector: str = "sfumato-survey") -> None:
    """Wait until an element says this."""
    wait(lambda: text in text_of(chromium, selector), f"{text!r} in {text_of(chromium)!r}")


def click(chromium: Any, text: str) -> None:
    """Press the button or link of this text."""
    script = """
    const all = [...document.querySelectorAll("sfumato-survey :is(button, a, summary)")];
    const found = all.find((each) => each.innerText.trim() === arguments[0] && !each.disabled);
    if (found) { found.scrollIntoView({ block: "center" }); found.click(); }
    return Boolean(found);
    """
    wait(lambda: chromium.execute_script(script, text), f"a button {text!r}")


def console(chromium: Any) -> list[str]:
    """Errors and warnings that the page caused, the content policy's among them."""
    levels = ("SEVERE", "WARNING")
    return [
        str(entry["message"]) for entry in chromium.get_log("browser") if entry["level"] in levels
    ]
