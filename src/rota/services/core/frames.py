"""Frames: how requests and answers look on a service's wire. Pure.

A layout is data: the fields of the header in their order. So the proxy needs none of the user's code to find where one
frame ends and the next begins. `BOX` and `MAPLE_TASK` are what existing clients speak, byte for byte.

`FrameCodec` is a layout made ready for work: `split` cuts what has come into whole frames, `reply` makes the answer to
one. A frame that cannot be right raises `BadFrame`; the stream is then out of step and must be closed.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from rota.model.errors import Invalid
from rota.services.core.codes import Ret

MAGIC = 0x7978AECF
LENGTHS = ("packet_len", "body_len")
NUMBERS = "bBhHiIlLqQ"
BYTES = re.compile(r"\d*[sp]")
ORDERS = "!<>=@"


class BadFrame(ValueError):
    """What came is no frame."""


class Field(msgspec.Struct, frozen=True):
    """A field of a header: its name, its code as in `struct`, and its default."""

    name: str
    code: str
    default: int = 0
    """For codes of numbers; fields of bytes are zeros."""


class Layout(msgspec.Struct, frozen=True):
    """The header of a frame: it needs `packet_len` or `body_len`, and `cmd`; `magic`, `ret` and `sn` are known too."""

    name: str
    fields: tuple[Field, ...]
    kept: tuple[str, ...] = ("cmd", "sn")
    """What an answer takes over from its request."""

    order: str = "!"
    """Byte order, as in `struct`."""


BOX = Layout(
    "box",
    (
        Field("magic", "i", MAGIC),
        Field("version", "h"),
        Field("flag", "h"),
        Field("packet_len", "i"),
        Field("cmd", "i"),
        Field("ret", "i"),
        Field("sn", "i"),
    ),
)
"""netkit's Box: a header of 24 bytes."""

MAPLE_TASK = Layout(
    "maple task",
    (
        Field("magic", "i", MAGIC),
        Field("version", "h"),
        Field("flags", "h"),
        Field("packet_len", "i"),
        Field("cmd", "i"),
        Field("ret", "i"),
        Field("node_id", "i"),
        Field("tag", "i"),
        Field("client_ip_num", "16s"),
        Field("conn_id", "q"),
        Field("uid", "q"),
        Field("userdata", "q"),
        Field("custom", "q"),
    ),
    kept=("conn_id", "tag", "node_id"),
)
"""maple's Task: a header of 76 bytes."""


@cache
def wire(layout: Layout) -> "FrameCodec":
    """The layout, ready for work; Invalid if it is none."""
    return FrameCodec(layout)


class FrameCodec:
    """Cuts and makes frames of one layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.names = [field.name for field in layout.fields]
        self._check(layout)
        self._header = struct.Struct(layout.order + "".join(field.code for field in layout.fields))
        self.size = self._header.size
        """Bytes of the header."""

        self._defaults: list[Any] = [b"" if field.code[-1] in "sp" else field.default for field in layout.fields]
        self._length = next(index for index, name in enumerate(self.names) if name in LENGTHS)
        self._beside = self.size if self.names[self._length] == "body_len" else 0
        self._cmd = self.names.index("cmd")
        self._sn = self.names.index("sn") if "sn" in self.names else None
        self._ret = self.names.index("ret") if "ret" in self.names else None
        self._kept = [self.names.index(name) for name in layout.kept if name in self.names]
        self._magic = self.names.index("magic") if "magic" in self.names else None
        self._expected = self._defaults[self._magic] if self._magic is not None else None
        self._try()

    def _try(self) -> None:
        """Pack one answer now, so that a field that cannot be packed is reported here and not in the middle of the
        work."""
        try:
            self.reply(self.frame(), min(Ret))
        except Invalid as error:
            raise Invalid(f"{error}; give its fields codes that hold what they carry") from None

    def split(self, data: bytes, limit: int) -> tuple[list[tuple[int, bytes]], int]:
        """The whole frames in `data`, each with its cmd, and how many bytes they take; BadFrame if one cannot be."""
        found: list[tuple[int, bytes]] = []
        start, there, size = 0, len(data), self.size
        unpack, magic, expected, length_at, cmd_at = (
            self._header.unpack_from,
            self._magic,
            self._expected,
            self._length,
            self._cmd,
        )
        while there - start >= size:
            values = unpack(data, start)
            if magic is not None and values[magic] != expected:
                raise BadFrame(f"magic number {values[magic]}, expected {expected}")
            length = values[length_at] + self._beside
            if not size <= length <= limit:
                raise BadFrame(f"a frame of {length} bytes; from {size} to {limit} are taken")
            end = start + length
            if end > there:
                break
            found.append((values[cmd_at], data[start:end]))
            start = end
        return found, start

    def needed(self, data: bytes) -> int:
        """The number of bytes that must have arrived before reading a frame that begins with `data` is worthwhile."""
        if len(data) < self.size:
            return self.size
        length: int = self._header.unpack_from(data)[self._length]
        return length + self._beside

    def read(self, frame: bytes) -> dict[str, Any]:
        """The header of a frame, by name."""
        return dict(zip(self.names, self._header.unpack_from(frame), strict=True))

    def cmd_and_sn(self, data: bytes, at: int = 0) -> tuple[int, int]:
        """The cmd and the sn of the frame that begins at `at`; 0 where the layout has no such field."""
        values = self._header.unpack_from(data, at)
        return values[self._cmd], values[self._sn] if self._sn is not None else 0

    def body(self, frame: bytes) -> bytes:
        """The bytes behind the header."""
        return frame[self.size :]

    def frame(self, body: bytes = b"", **fields: Any) -> bytes:
        """A frame with these fields; Invalid if one does not fit."""
        values = self._defaults.copy()
        self._set(values, fields)
        return self._packed(values, body)

    def reply(
        self, data: bytes, ret: int, body: bytes = b"", fields: Mapping[str, Any] | None = None, at: int = 0
    ) -> bytes:
        """The answer to the frame that begins at `at`; it keeps the layout's `kept` fields, and `fields` are set."""
        asked = self._header.unpack_from(data, at)
        values = self._defaults.copy()
        for index in self._kept:
            values[index] = asked[index]
        if self._ret is not None:
            values[self._ret] = ret
        if fields:
            self._set(values, fields)
        return self._packed(values, body)

    def _packed(self, values: list[Any], body: bytes) -> bytes:
        values[self._length] = self.size - self._beside + len(body)
        try:
            return self._header.pack(*values) + body
        except struct.error as error:
            raise Invalid(f"frame {self.layout.name}: {error}") from None

    def check(self, fields: Iterable[str]) -> None:
        """Raises Invalid naming the first of these fields that the header does not have."""
        for name in fields:
            if name not in self.names:
                raise Invalid(f"frame {self.layout.name} has no field {name!r}; it has {', '.join(self.names)}")

    def _set(self, values: list[Any], fields: Mapping[str, Any]) -> None:
        self.check(fields)
        for name, value in fields.items():
            values[self.names.index(name)] = value

    def _check(self, layout: Layout) -> None:
        name = f"frame {layout.name}"
        if sum(each in self.names for each in LENGTHS) != 1:
            raise Invalid(f"{name}: its header needs one of packet_len and body_len, to find the end of a frame")
        if "cmd" not in self.names:
            raise Invalid(f"{name}: its header needs cmd, to find the handler")
        if len(set(self.names)) < len(self.names):
            raise Invalid(f"{name}: two fields of its header have the same name")
        if layout.order not in tuple(ORDERS):
            raise Invalid(f"{name}: its order is {layout.order!r}; write one of {' '.join(ORDERS)}, as in struct")
        for field in layout.fields:
            is_number = field.code in tuple(NUMBERS)
            if not is_number and not BYTES.fullmatch(field.code):
                raise Invalid(
                    f"{name}: field {field.name} has the code {field.code!r}; "
                    f"write one of {' '.join(NUMBERS)} for a number, or like 16s for bytes"
                )
            if not is_number and field.name in ("magic", "cmd", "ret", "sn", *LENGTHS):
                raise Invalid(f"{name}: field {field.name} has the code {field.code!r}; it is a number, so write i")
