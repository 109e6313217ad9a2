"""Text from outside, made harmless for a terminal.

What nodes, apps and callers wrote may hold characters that a terminal obeys: they move the cursor, set the title, hide
what follows, or reverse the order of letters. `plain` shows them as `\\x1b`. The output of runs is the user's own, and
colours in it are wanted: `Colours` lets those through and nothing else.
"""

import codecs
import re

_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters of both ranges, line separators, characters that reverse text, and what is no Unicode."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,30})?\Z")
"""The beginning of a possible colour, to be completed by the next bytes."""

RESET = b"\x1b[0m"


def plain(text: str, *, keep: str = "") -> str:
    """The text with everything that a terminal would obey written out, but for the characters of `keep`."""
    if text.isprintable():
        return text
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else _shown(found[0]), text)


class Colours:
    """Output that comes in pieces, with its colours, lines and tabs, and nothing else that a terminal obeys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._is_coloured = False

    def take(self, data: bytes) -> bytes:
        """The text to print for these bytes and those held back."""
        text = self._rest + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._rest = begun[0] if begun else ""
        return self._clean(text[: len(text) - len(self._rest)])

    def end(self) -> bytes:
        """The rest to print at the end."""
        text = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        return self._clean(text) + (RESET if self._is_coloured else b"")

    def _clean(self, text: str) -> bytes:
        found, at = [], 0
        for colour in _COLOUR.finditer(text):
            found += [plain(text[at : colour.start()], keep="\n\r\t"), colour[0]]
            at, self._is_coloured = colour.end(), True
        found.append(plain(text[at:], keep="\n\r\t"))
        return "".join(found).encode(errors="replace")


def _shown(letter: str) -> str:
    code = ord(letter)
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(letter) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
