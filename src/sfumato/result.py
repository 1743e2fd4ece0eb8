"""Result: what has a view is shown, drawn, and handed on as a table by the renderers."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from sfumato import files
from sfumato.errors import FileError, ParameterError
from sfumato.renderers import frames, html, picture, text
from sfumato.view import Chart, View


class Shown:
    """What describes itself in `view`: so it is shown at a prompt and in a notebook."""

    @abstractmethod
    def view(self) -> View:
        """What is to be seen of it."""

    def brief(self) -> View:
        """What of it is to be seen at once, on one screen."""
        return self.view()

    def __repr__(self) -> str:
        return text.screen_of(self.brief())

    def _repr_html_(self) -> str:
        return html.fragment(self.view())


class Tabular(Shown):
    """What can be handed on as a table, in every form."""

    def to_arrow(self) -> Any:
        """Its first table that programs read, as an Arrow table."""
        tables = (table for part in self.view().parts() for table in part.tables)
        framed = next((table for table in tables if table.fields), None)
        if framed is None:
            raise ParameterError("there is no table in this result")
        return frames.arrow(framed)

    def to_pandas(self) -> Any:
        """The same as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a Polars data frame."""
        return frames.as_polars(self.to_arrow())

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same as one dictionary per row."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The same as one list per column, as JSON may hold it: what is no number there is None."""
        columns = self.to_arrow().to_pydict()
        return {name: frames.json_value(values) for name, values in columns.items()}


class Result(Tabular):
    """A table with a picture."""

    def plot(self, *, axes: Any = None) -> Any:
        """Its picture; the axes it was drawn on."""
        return picture.draw(first_chart(self.view()), axes)


class Record(Result):
    """A result whose JSON form is its fields, by their names."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return frames.json_fields(self)


def save_view(view: View, path: str | Path) -> None:
    """Write a view as a page, or its first picture, as the file's name says: .html, .png or .svg;
    an existing file stays whole until the new one is complete.
    """
    form = picture.picture_form(path)
    if form == "html":
        write_whole(path, html.page(view).encode("utf-8"))
    else:
        write_whole(path, picture.image(picture.draw(first_chart(view)), form))


def first_chart(view: View) -> Chart:
    """The first picture of a view or of its sections."""
    chart = next((chart for part in view.parts() for chart in part.charts), None)
    if chart is None:
        raise ParameterError("there is nothing to draw of this result")
    return chart


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that nobody ever sees half of it."""
    try:
        files.write_whole(Path(path), content)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"cannot write '{path}': {(error.strerror or str(error)).lower()}"
        ) from None
