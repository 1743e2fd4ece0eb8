"""Files and folders where Spark can reach them, on this machine or in a cluster's store, by their
path or URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import FileError
from sfumato.received import parsed_json
from sfumato.table.readers import FOLDER_DESCRIPTION
from sfumato.table.table import METADATA_KEY, Provenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, eq=False)
class Place:
    """A file or folder that Spark reads or writes, asked through the Hadoop file systems."""

    session: SparkSession
    url: str

    @property
    def exists(self) -> bool:
        """Whether there is anything of this name."""
        return bool(self._system.exists(self._path))

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.exists and bool(self._system.getFileStatus(self._path).isDirectory())

    def within(self, name: str) -> Place:
        """What has this name in this folder."""
        return Place(self.session, f"{self.url.rstrip('/')}/{name}")

    def beside(self, name: str) -> Place:
        """What has this name in the same folder."""
        head, slash, _ = self.url.rstrip("/").rpartition("/")
        return Place(self.session, f"{head}{slash}{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.url.rstrip("/").rpartition("/")[2]

    def delete(self) -> None:
        """Remove it, with everything in it."""
        self._system.delete(self._path, True)

    def rename(self, other: Place) -> None:
        """Give it another name, all at once."""
        if not self._system.rename(self._path, other._path):
            raise FileError(
                f"cannot write '{other.url}'", hint="is its folder there, and may it be written?"
            )

    def read_text(self) -> str:
        """What a text file holds."""
        stream = self._system.open(self._path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write_text(self, text: str) -> None:
        """Write a text file."""
        stream = self._system.create(self._path, True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()

    def description(self) -> Mapping[str, Any] | None:
        """What a perturbed folder or file says about itself; None for the truth."""
        if not self.exists:
            raise FileError(f"nothing is found at '{self.url}'")
        text = self._description_text()
        if text is None:
            return None
        return parsed_json(text, f"the description of '{self.url}'")

    def provenance(self) -> Provenance | None:
        """The mechanism that perturbed what is here; None for the truth."""
        description = self.description()
        return None if description is None else Provenance.from_description(description)

    def _description_text(self) -> str | None:
        side = (
            self.within(FOLDER_DESCRIPTION)
            if self.folder
            else self.beside(self.name + ".sfumato.json")
        )
        if side.exists:
            return side.read_text()
        return (
            None if self.folder or not self.url.endswith(".parquet") else self._parquet_metadata()
        )

    def _parquet_metadata(self) -> str | None:
        """The description in the footer of a Parquet file."""
        hadoop = self._java.org.apache.parquet.hadoop
        opened = hadoop.ParquetFileReader.open(
            hadoop.util.HadoopInputFile.fromPath(self._path, self._configuration)
        )
        try:
            return (
                opened.getFooter()
                .getFileMetaData()
                .getKeyValueMetaData()
                .get(METADATA_KEY.decode())
            )
        finally:
            opened.close()

    @property
    def _java(self) -> Any:
        return self.session.sparkContext._jvm

    @property
    def _configuration(self) -> Any:
        return self.session.sparkContext._jsc.hadoopConfiguration()

    @property
    def _path(self) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self.url)

    @property
    def _system(self) -> Any:
        return self._path.getFileSystem(self._configuration)
