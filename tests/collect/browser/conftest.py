"""A Chromium to drive, and Node; where they are missing, tests that need them are skipped, but not
in continuous integration.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CI = os.environ.get("CI") == "true"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=900,1100",
)


def missing(reason: str) -> None:
    """Skip a test, or in continuous integration fail it."""
    if CI:
        pytest.fail(f"{reason}; .ci/run installs it")
    pytest.skip(reason)


# What of the pinned packages the tests use; all of it is there once npm is through.
TOOLS = ("typescript/bin/tsc", "typescript/lib/tsc.js", "axe-core/axe.min.js")


@pytest.fixture(scope="session")
def node() -> str:
    """The command that runs JavaScript."""
    found = shutil.which("node")
    if found is None:
        missing("there is no Node here to run JavaScript")
    return str(found)


@pytest.fixture(scope="session")
def npm_packages(node: str) -> Path:
    """The folder of the type checker and the accessibility checker, installed as pinned."""
    folder = HERE / "node_modules"
    with (HERE / "package-lock.json").open() as pinned:  # one process installs, the others wait
        fcntl.flock(pinned, fcntl.LOCK_EX)
        if not all((folder / tool).is_file() for tool in TOOLS):
            npm = shutil.which("npm")
            command = [str(npm), "ci", "--no-audit", "--no-fund", "--prefix", str(HERE)]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError):
                missing(
                    "the test tools of package-lock.json are not installed and npm cannot fetch "
                    "them"
                )
    return folder


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium for all tests of this process."""
    selenium = (
        pytest.importorskip("selenium.webdriver")
        if not CI
        else __import__("selenium.webdriver", fromlist=["webdriver"])
    )
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        missing("there is no Chromium with its driver here")
    options = selenium.ChromeOptions()
    options.binary_location = str(browser)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = selenium.ChromeService(executable_path=str(driver))
    found = selenium.Chrome(options=options, service=service)
    found.set_script_timeout(120)
    yield found
    found.quit()
