"""The folder of a log, and the few files in it that are no records.

    log.json                            how many partitions there are, and for how long records are kept
    0/ 1/ 2/ …                          the partitions
    0/00000000000000000000.segment      records from that offset on
    0/00000000000000000000.index        where in the segment to look for what
    0/start                             the first offset that counts, where it lies within a segment
    0/lock                              who appends holds it

A file that is replaced is written beside, synced and renamed, so that readers see the old one or the new one.
"""

import os
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.kit.files import fsync_folder
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable

META = "log.json"
LOCK = "lock"
START = "start"
SEGMENT = ".segment"
INDEX = ".index"
FORMAT = 1
MOST_PARTITIONS = 1024
SEGMENT_BYTES = 64 * 2**20
_NAME = re.compile(r"(\d{20})\.segment")


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a log, the same for every writer."""

    id: str
    """Another one for each log, also under the same name."""

    partitions: int
    segment_bytes: int = SEGMENT_BYTES
    """Bytes after which another segment is begun."""

    keep_bytes: int | None = None
    """The oldest segments of a partition are deleted as long as this much is left."""

    keep_s: float | None = None
    """Seconds since the last append to a segment after which it is deleted."""

    format: int = FORMAT

    @property
    def keep_age(self) -> timedelta | None:
        """The same as a duration."""
        return None if self.keep_s is None else timedelta(seconds=self.keep_s)


class LogFolder(msgspec.Struct, frozen=True):
    """A log's folder, and the URL by which errors name it."""

    folder: Path
    shown: str

    def partition(self, number: int, meta: Meta) -> "PartitionFolder":
        """One of its partitions."""
        return PartitionFolder(self.folder / str(number), number, meta.id)

    def load(self) -> Meta:
        """What is settled; NotFound if there is no log here."""
        try:
            meta = msgspec.json.decode((self.folder / META).read_bytes(), type=Meta)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"source {self.shown}: no log there; make it: rota log create {self.shown}") from None
        except UNREADABLE as error:
            raise Invalid(f"source {self.shown}: {META} is damaged ({error}); write it anew from a copy") from None
        except OSError as error:
            raise Unavailable(f"source {self.shown}: {error.strerror}; make the folder usable") from error
        if meta.format != FORMAT:
            raise Invalid(
                f"source {self.shown}: its format is {meta.format}, this Rota reads {FORMAT}; take a newer one"
            )
        return meta

    def create(
        self,
        partitions: int,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        keep_bytes: int | None = None,
        keep_age: timedelta | None = None,
    ) -> Meta:
        """Make a log; Conflict if there is one."""
        self._check(partitions)
        if (self.folder / META).exists():
            raise Conflict(f"source {self.shown}: there is a log already; give it more partitions: rota log grow")
        meta = Meta(
            id=uuid4().hex,
            partitions=partitions,
            segment_bytes=segment_bytes,
            keep_bytes=keep_bytes,
            keep_s=None if keep_age is None else keep_age.total_seconds(),
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._save(meta)
        except OSError as error:
            raise Unavailable(f"source {self.shown}: {error.strerror}; make the folder usable") from error
        return meta

    def grow(self, partitions: int) -> Meta:
        """Set the number of partitions; Invalid if there would be fewer than now."""
        self._check(partitions)
        meta = self.load()
        if partitions < meta.partitions:
            raise Invalid(f"source {self.shown}: it has {meta.partitions} partitions, and they cannot become fewer")
        meta = msgspec.structs.replace(meta, partitions=partitions)
        self._save(meta)
        return meta

    def _check(self, partitions: int) -> None:
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise Invalid(f"source {self.shown}: {partitions} partitions; from 1 to {MOST_PARTITIONS} can be")

    def _save(self, meta: Meta) -> None:
        for number in range(meta.partitions):
            self.partition(number, meta).folder.mkdir(exist_ok=True)
        replace(self.folder / META, msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n")


class PartitionFolder(msgspec.Struct, frozen=True):
    """A partition's folder, and what its files are called."""

    folder: Path
    number: int
    log: str
    """The id of the log."""

    def segments(self) -> list[int]:
        """The first offsets of its segments, in order."""
        return sorted(int(found[1]) for name in os.listdir(self.folder) if (found := _NAME.fullmatch(name)))

    def segment(self, first: int) -> Path:
        """The file of a segment's records."""
        return self.folder / f"{first:020d}{SEGMENT}"

    def index(self, first: int) -> Path:
        """The file of a segment's hints."""
        return self.folder / f"{first:020d}{INDEX}"

    def sizes(self) -> list[int]:
        """The bytes of its segments, those left out that are deleted meanwhile."""
        sizes = []
        for first in self.segments():
            with suppress(FileNotFoundError):
                sizes.append(self.segment(first).stat().st_size)
        return sizes

    def seed(self, first: int) -> int:
        """What the checksums of a segment begin with.

        It is unique to the segment: bytes of another segment that were appended as a value are never taken for records,
        and such bytes cannot be forged without knowing the log's id.
        """
        return crc32(f"{self.log}/{self.number}/{first}".encode())

    def load_start(self) -> int:
        """The first offset that counts, as far as `save_start` was ever called."""
        with suppress(FileNotFoundError, ValueError):  # damaged: then what the segments have counts
            return int((self.folder / START).read_text())
        return 0

    def save_start(self, start: int) -> None:
        """Have readers begin there."""
        replace(self.folder / START, b"%d\n" % start)


def replace(path: Path, content: bytes) -> None:
    """Have this content in a file, on disk, or the one before."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    fsync_folder(path.parent)
