"""`parquet:///folder`: Parquet files in a folder, with the catalogue in the store.

All nodes that run the stream must see the same folder. Below it:

    day=2026-11-16/3f…-0.parquet     published: a reader of the folder sees these and no others
    _drafts/3f…/                     what a task has written and not published, in files that end in `.draft`
    _manifests/…json                 lists of segments that are too long for a record of the store

A publish is one commit to the store (`catalogue`). Then the draft's files are moved to where readers look: that is the
hand-off. If the task dies between the two, the files are published all the same, and `sweep` moves them.

Options: `by=day|hour|month|none` with `time=FIELD` sorts rows into folders by time, `compression=zstd|snappy|none`.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rota.kit.files import fsync_folder, make_folder, write_synced
from rota.kit.time.clock import Clock
from rota.model.errors import Denied, Invalid, NotFound, Unavailable
from rota.model.url import Options
from rota.outputs.catalogue import PublishedCatalogue, new_draft
from rota.outputs.port import Committer, Draft, Letter, Output, PublishedLost, Rows, Spoiled, Swept
from rota.outputs.rowfiles import DRAFT_SUFFIX, FileLayout, FolderColumns, RowFiles, as_tables
from rota.outputs.url import CommitterUrl
from rota.outputs.verdict import PUBLISHED, Moves, PublishVerdict, Turn, can_never_publish
from rota.store.port import Store
from rota.streams.core.manifest import Manifest, Offsets, Range, Segment
from rota.streams.core.records import MoveRecord

T = TypeVar("T")

DRAFTS, MANIFESTS, LETTERS, LABEL = "_drafts", "_manifests", "_letters", "draft.json"
PIECE = 10_000
"""Rows that are read at a time."""

LONGEST = 400
"""Segments that a manifest's record names itself."""


class Label(msgspec.Struct, frozen=True):
    """The stream of a draft, and where its records begin; used by `sweep`."""

    stream: str
    task: str
    starts: dict[int, int]


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The folder, made if it is not there; Denied or Invalid says why it cannot be used."""
    if url.hosts or url.user or len(url.path) < 2:
        raise Invalid(f"output {url}: write parquet:///folder, with an absolute path")
    layout = _layout(url)
    root = Path(url.path)
    try:
        make_folder(root / DRAFTS)
    except OSError as error:
        raise Denied(f"output {url}: {error.strerror}; choose another folder, or make it writable") from error
    return ParquetCommitter(root, layout, stream, PublishedCatalogue(store, stream), clock)


async def look(url: CommitterUrl, stream: str, store: Store) -> Output:
    """The folder as it is; NotFound if it is not on this machine."""
    root = Path(url.path)
    if not await asyncio.to_thread(root.is_dir):
        raise NotFound(f"output {url}: there is no folder {root} on this machine; look from one that has it")
    return ParquetOutput(root, PublishedCatalogue(store, stream))


def warm_up() -> None:
    """Make columns of a row. pyarrow imports pandas for its first list, if it is there: that takes half a second."""
    as_tables([{"": 0}])


def _layout(url: CommitterUrl) -> FileLayout:
    options = Options(url)
    by, field = options.choice("by", ("none", "hour", "day", "month")), options.text("time")
    if (by == "none") != (field is None):
        raise options.wrong("by= and time= belong together; write by=day&time=FIELD, or neither")
    compression = options.choice("compression", ("zstd", "snappy", "none"))
    options.done()
    return FileLayout(by=by, field=field or "", compression=compression)


class ParquetDraft:
    """A folder of files that are not published yet."""

    def __init__(self, folder: Path, layout: FileLayout, label: Label, seen: Moves | None) -> None:
        self.id, self.task, self.folder, self.seen = folder.name, label.task, folder, seen
        self.is_closed = self.may_be_published = False
        self.letters: Sequence[Letter] = ()
        """What is published with its rows; written down when it is closed."""

        self._spoiled = ""
        """Why it is not whole any more, if so."""

        with _translated(self.folder):
            make_folder(self.folder)
            write_synced(self.folder / LABEL, msgspec.json.encode(label))
        self._files = RowFiles(self.folder, self.id, layout)

    @property
    def rows(self) -> int:
        return self._files.rows

    @property
    def bytes(self) -> int:
        return self._files.bytes

    def append(self, rows: object) -> None:
        if self.is_closed:
            raise Invalid("this draft is closed: its publish has begun; write into a new one")
        with self._whole():
            self._files.append(rows)

    def close(self) -> tuple[Segment, ...]:
        """Write everything to disk; the files, with the paths they will have."""
        was_closed, self.is_closed = self.is_closed, True
        with self._whole():
            if self.letters and not was_closed:
                self._write_letters()
            return self._files.close()

    def _write_letters(self) -> None:
        """Write dead letters beside the rows' files, to be handed off with them."""
        folder = self.folder / LETTERS
        make_folder(folder)
        lines = "".join(f"{letter.line}\n" for letter in self.letters).encode()
        write_synced(folder / f"{self.id}.jsonl{DRAFT_SUFFIX}", lines)
        fsync_folder(folder)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Write; after one failure rows may be missing, and every later call fails."""
        if self._spoiled:
            raise Spoiled(self._spoiled)
        try:
            yield
        except OSError as error:
            self._spoiled = _said(self.folder, error)
            raise Spoiled(self._spoiled) from error
        except pa.ArrowException as error:
            self._spoiled = f"output {self.folder}: rows cannot be written: {error}; return other fields"
            raise Spoiled(self._spoiled) from error

    def discard(self) -> None:
        """Remove the draft, unless it may have been published: then `sweep` decides."""
        self._files.abandon()
        if not self.may_be_published:
            shutil.rmtree(self.folder, ignore_errors=True)


class ParquetCommitter:
    """One stream's folder."""

    def __init__(
        self, root: Path, layout: FileLayout, stream: str, catalogue: PublishedCatalogue, clock: Clock
    ) -> None:
        self._root, self._layout, self._stream = root, layout, stream
        self._catalogue, self._clock = catalogue, clock
        self._drafts = root / DRAFTS
        self._seen: Moves | None = None

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        return await self._catalogue.begin(offsets)

    async def committed(self) -> dict[int, int]:
        return await self._catalogue.committed()

    async def attach(self) -> dict[int, int]:
        self._seen = await self._catalogue.moves()
        return await self._catalogue.committed()

    async def fitted(self, rows: Rows, *, is_tried: bool = False) -> FolderColumns:
        return FolderColumns(rows, self._layout)

    def draft(self, task: str, starts: Offsets) -> Draft:
        folder = self._drafts / new_draft(self._clock.wall())
        return ParquetDraft(folder, self._layout, Label(self._stream, task, dict(starts)), self._seen)

    async def publish(self, draft: Draft, ranges: Sequence[Range]) -> PublishVerdict:
        own = cast(ParquetDraft, draft)
        manifest = await _beside(partial(self._manifest, own, ranges))
        was_unsure = own.may_be_published
        own.may_be_published = True
        try:
            verdict = await self._catalogue.publish(manifest, own.seen)
        except (Invalid, Denied, Unavailable):
            own.may_be_published = was_unsure  # after anything else, being cancelled too, the commit may be there
            raise
        if verdict.turn is not Turn.PUBLISHED and was_unsure and await self._catalogue.published(own.id):
            verdict = PUBLISHED  # the answer to an earlier attempt was lost
        if verdict.turn is Turn.PUBLISHED:
            await _beside(partial(self._hand_off, own.folder))
        own.may_be_published = False
        return verdict

    def keep_letters(self, draft: Draft, letters: Sequence[Letter]) -> None:
        cast(ParquetDraft, draft).letters = tuple(letters)

    async def move(self, move: MoveRecord) -> MoveRecord:
        return await self._catalogue.move(move)

    async def moved(self, id: str) -> MoveRecord | None:
        return await self._catalogue.moved(id)

    async def sweep(self) -> Swept:
        """The offsets are read first: by them a draft can never be published, or what it became is found after."""
        committed = await self._catalogue.committed()
        removed = moved = 0
        for folder in _folders(self._drafts):
            # The label comes last: a power failure may take it, and the files are published all the same.
            if await self._catalogue.published(folder.name):
                moved += await _beside(partial(self._hand_off, folder))
            elif (label := self._label(folder)) is not None and can_never_publish(committed, label.starts):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return Swept(drafts=removed, handed_off=moved)

    async def close(self) -> None:
        """Nothing is held open but drafts, and those are their tasks'."""

    # Publishing

    def _manifest(self, draft: ParquetDraft, ranges: Sequence[Range]) -> Manifest:
        segments = draft.close()
        listed = self._write_list(draft.id, segments) if len(segments) > LONGEST else None
        return Manifest(
            id=draft.id,
            stream=self._stream,
            ranges=tuple(ranges),
            rows=draft.rows,
            segments=() if listed else segments,
            file=listed,
            at=self._clock.wall(),
            by=draft.task,
        )

    def _write_list(self, id: str, segments: Sequence[Segment]) -> str:
        path = self._root / MANIFESTS / f"{id}.json"
        with _translated(path):
            make_folder(path.parent)
            write_synced(path, msgspec.json.encode(segments))
            fsync_folder(path.parent)
        return f"{MANIFESTS}/{path.name}"

    def _hand_off(self, folder: Path) -> int:
        """Move a published draft's files to where readers look; done again, it goes on where it was."""
        moved = 0
        touched: set[Path] = set()
        with (
            _translated(folder),
            contextlib.suppress(FileNotFoundError),
        ):  # another that sweeps was faster with all of it
            for file in sorted(folder.rglob(f"*{DRAFT_SUFFIX}")):
                place = self._root / str(file.relative_to(folder)).removesuffix(DRAFT_SUFFIX)
                make_folder(place.parent)
                with contextlib.suppress(FileNotFoundError):  # … or with this one
                    file.rename(place)
                    moved += 1
                touched.add(place.parent)
            for place in touched:
                fsync_folder(place)
        shutil.rmtree(folder, ignore_errors=True)
        return moved

    def _label(self, folder: Path) -> Label | None:
        """Of a draft of this stream; None for one that is just being made, or is none of ours."""
        try:
            label = msgspec.json.decode((folder / LABEL).read_bytes(), type=Label)
        except (OSError, msgspec.DecodeError):
            return None
        return label if label.stream == self._stream else None


class ParquetOutput:
    """One stream's folder, for those who only look."""

    def __init__(self, root: Path, catalogue: PublishedCatalogue) -> None:
        self._root, self._catalogue = root, catalogue

    async def committed(self) -> dict[int, int]:
        return await self._catalogue.committed()

    async def manifests(self) -> list[Manifest]:
        return await self._catalogue.manifests()

    async def total(self) -> None:
        """Rows are counted by publish."""

    async def counted(self, manifest: Manifest) -> int:
        return await asyncio.to_thread(self._counted, manifest)

    async def rows(
        self, most: int | None = None, *, is_whole: bool = True
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        left = most
        for manifest in await self._catalogue.manifests():
            pieces = self._pieces(manifest, () if is_whole else (PublishedLost,))
            while (rows := await asyncio.to_thread(next, pieces, None)) is not None:
                yield rows[:left]
                left = None if left is None else left - len(rows)
                if left is not None and left <= 0:
                    return

    async def close(self) -> None:
        """Nothing is held open."""

    def _pieces(self, manifest: Manifest, despite: tuple[type[PublishedLost], ...]) -> Iterator[list[dict[str, Any]]]:
        with contextlib.suppress(*despite):
            for segment in self._segments(manifest):
                with contextlib.suppress(*despite), self._file(manifest, segment) as file:
                    for batch in file.iter_batches(PIECE):
                        yield batch.to_pylist()

    def _counted(self, manifest: Manifest) -> int:
        """A file that is gone has no rows."""
        found = 0
        with contextlib.suppress(PublishedLost):
            for segment in self._segments(manifest):
                with contextlib.suppress(PublishedLost), self._file(manifest, segment) as file:
                    found += file.metadata.num_rows
        return found

    @contextlib.contextmanager
    def _file(self, manifest: Manifest, segment: Segment) -> Iterator[pq.ParquetFile]:
        """A file of a publish, which may be handed off in this moment."""
        with _found(self._root / segment.path):
            try:
                file = pq.ParquetFile(self._root / DRAFTS / manifest.id / (segment.path + DRAFT_SUFFIX))
            except FileNotFoundError:
                file = pq.ParquetFile(self._root / segment.path)
            with file:
                yield file

    def _segments(self, manifest: Manifest) -> Sequence[Segment]:
        if manifest.file is None:
            return manifest.segments
        with _found(self._root / manifest.file):
            return msgspec.json.decode((self._root / manifest.file).read_bytes(), type=tuple[Segment, ...])


async def _beside(work: Callable[[], T]) -> T:
    """What `work` returns, done in a thread, as a disk may be slow with many files.

    A cancelled caller waits for it to end: until then no other caller may touch the files.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # nobody else asks for it
        raise


def _folders(place: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in place.iterdir() if path.is_dir())
    except FileNotFoundError:
        return


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate the system's errors about a file into Rota's."""
    try:
        yield
    except OSError as error:
        raise Unavailable(_said(path, error)) from error


@contextlib.contextmanager
def _found(path: Path) -> Iterator[None]:
    """Read what is published; Lost if it is gone or damaged, Unavailable if the system does not let us."""
    try:
        yield
    except (FileNotFoundError, pa.ArrowException, msgspec.DecodeError) as error:
        raise _lost(path, error) from error
    except OSError as error:
        # pyarrow has no error number for what it cannot decode.
        raise Unavailable(_said(path, error)) if error.errno else _lost(path, error) from error


def _lost(path: Path, error: Exception) -> PublishedLost:
    said = "the file is gone" if isinstance(error, FileNotFoundError) else f"the file is damaged: {error}"
    return PublishedLost(f"output {path}: {said}; restore it, or reset the stream to read its records again")


def _said(path: Path, error: OSError) -> str:
    return f"output {path}: {error.strerror or error}; make room, or fix the folder"
