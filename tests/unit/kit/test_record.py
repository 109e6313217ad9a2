"""Fields of records, changed."""

from dataclasses import dataclass

import msgspec
import pytest

from rota.kit.record import replace


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    name: str = "a"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be negative")


@dataclass(frozen=True, kw_only=True)
class Data:
    count: int
    name: str = "a"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be negative")


@pytest.mark.parametrize("kind", [Struct, Data])
class TestReplace:
    def test_the_other_fields_stay(self, kind: type[Struct] | type[Data]) -> None:
        before = kind(count=1, name="b")
        assert replace(before, count=2) == kind(count=2, name="b")
        assert before == kind(count=1, name="b")

    def test_the_checks_are_made_again(self, kind: type[Struct] | type[Data]) -> None:
        """Not so with a msgspec older than 0.21."""
        with pytest.raises(ValueError, match="must not be negative"):
            replace(kind(count=1), count=-1)

    def test_a_field_that_is_not_there_is_refused(self, kind: type[Struct] | type[Data]) -> None:
        with pytest.raises(TypeError):
            replace(kind(count=1), number=2)
