"""What every model file begins with: enough to know one, and what it says about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import FileError
from sfumato.untrusted import MOST_JSON_BYTES, Untrusted, check_file, parsed_json, read_text

FORMAT = "sfumato model"
VERSION = 1


def is_model(path: str | Path) -> bool:
    """Whether a file begins as a model does."""
    try:
        check_file(Path(path), f"'{path}'")
        with Path(path).open("rb") as file:
            return f'"format":"{FORMAT}"'.encode() in file.read(64).replace(b": ", b":")
    except (OSError, ValueError):
        return False


def read_model(path: str | Path) -> Untrusted:
    """The JSON data of a model file, its format and version checked."""
    where = f"'{path}'"
    given = Untrusted(parsed_json(read_text(Path(path), where, MOST_JSON_BYTES), where), where)
    if given["format"].word() != FORMAT or given["version"].whole() != VERSION:
        raise FileError(f"{where} is no model that this Sfumato reads", hint="fit it again")
    return given


def describe_model(path: str | Path) -> dict[str, Any]:
    """What a model file says about itself."""
    described = read_model(path)["described"]
    origin = described["fitted_to"]
    columns = described["columns"].fields()
    return {
        "model": described["model"].word(),
        "order": described["order"].whole(1, 3),
        "columns": {name: list(labels.words()) for name, labels in columns.items()},
        "rows": described["rows"].whole(),
        "law": described["law"].word(),
        "fitted_to": {
            "mechanism": origin["mechanism"].word(),
            "rows": origin["rows"].whole(),
            "gamma": origin["gamma"].value,
            "left_out": list(origin["left_out"].words()),
        },
    }
