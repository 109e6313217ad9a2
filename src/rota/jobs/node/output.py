"""What a worker of runs writes: output as it comes, and between the output of two attempts an answer. Pure.

Standard output and error of such a worker lead into one pipe, which the agent reads. When an attempt has ended, the
worker writes its answer into the same pipe: a secret mark, a length, and how the attempt ended. So the end of an
attempt's output is exact, an answer costs one write, and what was written survives the worker: an attempt that was
answered is never taken for lost.

A write of up to `ATOMIC` bytes is never mixed with another's; answers are shorter than that.
"""

import struct
from collections import deque
from collections.abc import Iterator

import msgspec

ATOMIC = 4096
LONGEST_ERROR = 2000
"""Bytes of an error that an answer carries."""

CHUNK = 64 * 1024
"""Bytes of a log that are kept as one piece, at most."""

GLIMPSES = 640
"""The glimpses' share of the bound has room for this many glimpses of full size."""

OFTEN = 64
"""The next glimpse comes when the time since the beginning was full has grown by 1/`OFTEN`."""

_LENGTH = struct.Struct(">H")


class AttemptAnswer(msgspec.Struct, frozen=True, array_like=True):
    """How an attempt ended, as its worker reports it."""

    attempt: int
    error: str = ""
    exit_code: int | None = None
    """The argument of `sys.exit`, if the function called it."""

    started: float = 0.0
    """When it started, in seconds since 1970."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AttemptAnswer).decode


def encode(mark: bytes, answer: AttemptAnswer) -> bytes:
    """The answer as its worker writes it."""
    body = _encode(answer)
    return mark + _LENGTH.pack(len(body)) + body


def shortened(error: str) -> str:
    """An error that fits into an answer; what UTF-8 cannot hold (a lone surrogate) is written as its code."""
    return error[:LONGEST_ERROR].encode(errors="backslashreplace")[:LONGEST_ERROR].decode(errors="ignore")


class Cutter:
    """Separates answers from output, in pieces of any size."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes | AttemptAnswer]:
        """What has come, in order; the beginning of an answer is held back until the rest is there."""
        data = self._rest + data if self._rest else data
        mark, at = self._mark, 0
        while (found := data.find(mark, at)) >= 0:
            body = found + len(mark) + _LENGTH.size
            if len(data) < body:
                break
            end = body + _LENGTH.unpack_from(data, body - _LENGTH.size)[0]
            if len(data) < end:
                break
            if found > at:
                yield data[at:found]
            yield _decode(data[body:end])
            at = end
        held = found if found >= 0 else len(data) - self._begun(data, at)
        if held > at:
            yield data[at:held]
        self._rest = data[held:]

    def end(self) -> bytes:
        """Return what looked like the beginning of an answer, and was none."""
        rest, self._rest = self._rest, b""
        return rest

    def _begun(self, data: bytes, at: int) -> int:
        """How many of the last bytes may be the beginning of a mark."""
        for length in range(min(len(self._mark) - 1, len(data) - at), 0, -1):
            if data.endswith(self._mark[:length]):
                return length
        return 0


class Bounded:
    """The output of one attempt, of which at most `most` bytes are kept: its beginning and its end.

    `feed` takes output in. What is to be kept is put in `pieces`, at adjoining offsets, and stays there until it has
    been written down (`written`). When the beginning is full, a line says so; the end is held back, always the newest
    of it, and comes with `close`, behind a line that says how much is left out.

    Until then a follower of the log sees glimpses: at intervals `glimpse` keeps the newest lines. They come less often
    the longer it lasts, so that a quarter of the bound is enough for a week.
    """

    def __init__(self, most: int) -> None:
        self.pieces: deque[tuple[int, bytes]] = deque()
        self.size = 0
        """Bytes kept so far, including those that were written down."""

        self.is_closed = False
        self._head_left = most - most // 2
        self._tail: deque[bytes] = deque()
        self._tail_room = most // 2
        self._left_out = 0
        self._most = most
        self._open = bytearray()
        self._glimpses_left = most // 4
        self._beyond = self._glimpsed = 0
        """Bytes that came after the beginning was full, and how many of them had come at the last glimpse."""

        self._full_since: float | None = None
        self._glimpsed_at = 0.0

    def feed(self, data: bytes) -> None:
        """Take output in."""
        if self._head_left > 0:
            head = data[: self._head_left]
            self._keep(head)
            self._head_left -= len(head)
            data = data[len(head) :]
            if self._head_left == 0:
                full = f"the log has more than {self._most} bytes; glimpses follow, and its end when it is over"
                self._keep(f"\n[rota: {full}]\n".encode())
        if data:
            self._beyond += len(data)
            self._tail.append(data)
            self._tail_room -= len(data)
            while self._tail_room < 0:
                self._drop()

    def glimpse(self, now: float) -> None:
        """Keep the newest lines, if the beginning is full and the last glimpse is long enough ago; `now` in seconds."""
        fresh = self._beyond - self._glimpsed
        if self.is_closed or not fresh:
            return
        if self._full_since is None:
            self._full_since = now
        elif now - self._glimpsed_at < (now - self._full_since) / OFTEN:
            return
        newest = self._newest(min(fresh, self._most // 4 // GLIMPSES))
        begin = newest.find(b"\n") + 1 if len(newest) < fresh else 0
        end = newest.rfind(b"\n") + 1
        lines, rest = (newest[begin:end], len(newest) - end) if end > begin else (newest + b"\n", 0)
        skipped = self._beyond - rest - len(lines) - self._glimpsed
        text = f"[rota: {skipped} bytes later]\n".encode() + lines if skipped > 0 else lines
        if newest and len(text) <= self._glimpses_left:
            self._glimpses_left -= len(text)
            self._glimpsed, self._glimpsed_at = self._beyond - rest, now
            self._keep(text)

    def _newest(self, most: int) -> bytes:
        """The last bytes that came."""
        found = list[bytes]()
        for data in reversed(self._tail):
            if most <= 0:
                break
            found.append(data[-most:])
            most -= len(found[-1])
        return b"".join(reversed(found))

    def close(self) -> None:
        """The output has ended."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._left_out:
            self._keep(f"[rota: {self._left_out} bytes are left out here]\n".encode())
        for data in self._tail:
            self._keep(data)
        self._tail.clear()

    def sealed(self) -> list[tuple[int, bytes]]:
        """The pieces to write down now; later output does not change them."""
        self._seal()
        return list(self.pieces)

    def written(self, upto: int) -> None:
        """Everything before this offset is written down."""
        while self.pieces and self.pieces[0][0] + len(self.pieces[0][1]) <= upto:
            self.pieces.popleft()

    @property
    def held(self) -> int:
        """Bytes that are not written down, without the end that is held back."""
        return sum(len(data) for _, data in self.pieces) + len(self._open)

    def unwritten(self, place: int) -> bytes | None:
        """At most a chunk of what is at an offset and not written down; None if that is written down."""
        for start, data in self.pieces:
            if start <= place < start + len(data):
                return data[place - start :]
        start = self.size - len(self._open)
        return bytes(self._open[place - start :]) if place >= start else None

    def _drop(self) -> None:
        """Drop the oldest part of the end."""
        oldest = self._tail.popleft()
        surplus = min(len(oldest), -self._tail_room)
        if surplus < len(oldest):
            self._tail.appendleft(oldest[surplus:])
        self._tail_room += surplus
        self._left_out += surplus

    def _keep(self, data: bytes) -> None:
        self.size += len(data)
        self._open += data
        while len(self._open) >= CHUNK:
            self.pieces.append((self.size - len(self._open), bytes(self._open[:CHUNK])))
            del self._open[:CHUNK]

    def _seal(self) -> None:
        if self._open:
            self.pieces.append((self.size - len(self._open), bytes(self._open)))
            self._open.clear()
