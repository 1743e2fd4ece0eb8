"""Files and folders where Spark can reach them, on this machine or in a cluster's store, by their
path or URL.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import FileError
from sfumato.table.describing import ALGORITHM, described_by, parts_digest
from sfumato.table.parquet import FOLDER_DESCRIPTION
from sfumato.table.table import METADATA_KEY, RELEASE_KEY, Provenance
from sfumato.untrusted import parsed_json

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

    @property
    def parts(self) -> str:
        """A digest of the names of a folder's parts, each of which Spark gave a random name: a part
        that was lost, added or exchanged changes it.
        """
        found = [status.getPath().getName() for status in self._system.listStatus(self._path)]
        return parts_digest(found)

    @property
    def state(self) -> str:
        """What changes when the file does, or one of the folder's files, or one comes or goes."""
        found = self._system.listStatus(self._path)
        facts = ((s.getPath().getName(), s.getLen(), s.getModificationTime()) for s in found)
        return ", ".join(f"{name} {size} {time}" for name, size, time in sorted(facts))

    def digest(self) -> str:
        """The digest of a file's bytes, as a side file notes it."""
        stream = self._system.open(self._path)
        try:
            codec = self._java.org.apache.commons.codec.digest.DigestUtils
            return f"{ALGORITHM}:{codec.sha256Hex(stream)}"
        finally:
            stream.close()

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
        if self.folder:
            return self._parsed(self.within(FOLDER_DESCRIPTION))
        if self.url.lower().endswith(".parquet"):
            text = self._parquet_metadata().get(METADATA_KEY.decode())
            return None if text is None else parsed_json(text, self._described)
        found = self._parsed(self.beside(self.name + ".sfumato.json"))
        return None if found is None else described_by(found, self.digest, self._described)

    @property
    def _described(self) -> str:
        return f"the description of '{self.url}'"

    def _parsed(self, side: Place) -> Mapping[str, Any] | None:
        return parsed_json(side.read_text(), self._described) if side.exists else None

    def provenance(self) -> Provenance | None:
        """The mechanism that perturbed what is here, once the rows are known to be those that the
        description speaks of; None for the truth.
        """
        description = self.description()
        if description is None:
            return None
        provenance = Provenance.from_description(description)
        if self.folder and provenance.release is not None:
            provenance.check_rows(self._release_of_parts(description), f"'{self.url}'")
        elif self.url.lower().endswith(".parquet"):
            release = self._parquet_metadata().get(RELEASE_KEY.decode())
            provenance.check_rows(release, f"'{self.url}'")
        return provenance

    def _release_of_parts(self, description: Mapping[str, Any]) -> str | None:
        """The release id that the parts carry, if they are those that the description knows."""
        if description.get("parts") != self.parts:
            return None
        fields = self.session.read.parquet(self.url).schema.fields
        return fields[0].metadata.get(RELEASE_KEY.decode()) if fields else None

    def _parquet_metadata(self) -> Any:
        """What the footer of a Parquet file says beside its schema, by name."""
        hadoop = self._java.org.apache.parquet.hadoop
        opened = hadoop.ParquetFileReader.open(
            hadoop.util.HadoopInputFile.fromPath(self._path, self._configuration)
        )
        try:
            return opened.getFooter().getFileMetaData().getKeyValueMetaData()
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


@contextmanager
def appearing(place: Place) -> Iterator[Place]:
    """A folder under a temporary name, which takes its own at the end of a block that ends well.

    What has that name is set aside first and deleted last, so that a crash between the two leaves
    the old folder, the new one or both.
    """
    token = uuid.uuid4().hex[:12]
    temporary, aside = (place.beside(f".{place.name}.{token}.{end}") for end in ("part", "old"))
    try:
        yield temporary
        if place.exists:
            place.rename(aside)
        try:
            temporary.rename(place)
        except BaseException:
            if aside.exists:
                aside.rename(place)
            raise
    except BaseException:
        temporary.delete()
        raise
    aside.delete()
