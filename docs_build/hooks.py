"""Hooks: MkDocs asks for each page as it is printed, and takes its pictures along."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from posixpath import relpath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # MkDocs loads this file alone

from docs_build.blocks import blocks
from docs_build.lists import LISTS
from docs_build.printing import printed, whole
from docs_build.running import BlockError, outcomes
from sfumato import __version__

AT_ONCE = 2  # pages whose blocks run beside each other


def on_files(files: Any, config: Any) -> Any:
    """Run the blocks of all pages, two pages at a time, and add the pictures that they drew."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        drawn = list(pool.map(_pictures, files.documentation_pages()))
    for address, picture in (pair for page in drawn for pair in page):
        files.append(File.generated(config, address, content=picture))
    return files


def on_config(config: Any) -> Any:
    """Say which version is described, above and below every page."""
    config.site_name = f"{config.site_name} {__version__}"
    config.copyright = f"These pages describe Sfumato {__version__}"
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with its outputs, pictures and generated lists."""
    here = Path(page.file.src_uri)
    return printed(
        Path(page.file.abs_src_path),
        lambda name, _: relpath(_address(here, name), here.parent.as_posix()),
        LISTS,
    )


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """The page with what belongs together in one piece: a line does not end within `--seed`."""
    return whole(html)


def _address(page: Path, name: str) -> str:
    """Where a picture of a page stands in the site."""
    return (Path("pictures") / page.with_suffix("") / name).as_posix()


def _pictures(file: Any) -> list[tuple[str, bytes]]:
    try:
        return list(_drawn(Path(file.abs_src_path), Path(file.src_uri)))
    except BlockError as error:
        raise PluginError(str(error)) from error


def _drawn(page: Path, uri: Path) -> Iterator[tuple[str, bytes]]:
    found = blocks(page.read_text(encoding="utf-8"))
    for block, outcome in zip(found, outcomes(page), strict=True):
        if outcome.picture is not None:
            yield _address(uri, block.settings["picture"]), base64.b64decode(outcome.picture)
