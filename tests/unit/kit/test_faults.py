"""An error of a user's code becomes text that every record and channel takes."""

import os

import pytest

from rota.kit.faults import LONGEST, described, sendable


class Mute(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise SystemExit("nothing to say")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(ValueError("no"), "ValueError: no", id="plain"),
        pytest.param(OSError(os.fsdecode(b"caf\xe9")), "OSError: caf\\udce9", id="a file name that is not UTF-8"),
        pytest.param(Mute(), "Mute: its message cannot be read, str() raises SystemExit", id="no message"),
    ],
)
def test_an_error_is_described(error: Exception, said: str) -> None:
    assert described(error) == said


@pytest.mark.parametrize("letter", ["x", "ß", "\udce9", "😀"])
def test_a_long_text_is_cut_and_can_be_sent(letter: str) -> None:
    text = sendable(letter * 2 * LONGEST)
    assert len(text) == LONGEST
    assert text.encode().decode() == text
    assert text.endswith("…")
    assert sendable("x" * LONGEST) == "x" * LONGEST
