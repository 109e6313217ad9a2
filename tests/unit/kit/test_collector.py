"""When the garbage collector looks, and when it does not."""

import gc
from collections.abc import Callable, Iterator

import pytest

from rota.doors.grpc import transcode
from rota.kit import collector


@pytest.fixture
def looks() -> Iterator[Callable[[], int]]:
    """How often the collector has looked so far."""
    seen = 0

    def look(phase: str, info: object) -> None:
        nonlocal seen
        seen += phase == "start"

    gc.callbacks.append(look)
    yield lambda: seen
    gc.callbacks.remove(look)


def test_it_looks_at_nothing_while_it_is_paused_and_goes_on_afterwards(looks: Callable[[], int]) -> None:
    gc.collect()
    before = looks()
    with collector.paused():
        kept = [[number] for number in range(10 * gc.get_threshold()[0])]
        assert looks() == before
    assert gc.isenabled()
    kept += [[number] for number in range(10 * gc.get_threshold()[0])]
    assert looks() > before


def test_a_pause_within_a_pause_ends_with_the_outer_one_also_after_an_error() -> None:
    with collector.paused():
        with pytest.raises(ZeroDivisionError), collector.paused():
            raise ZeroDivisionError
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_large_body_is_read_without_it(looks: Callable[[], int]) -> None:
    text = f"[{'[],' * 100_000}[]]"
    gc.collect()
    before = looks()
    transcode.from_json("spec_json", text)
    assert looks() - before <= 1, "a look at what was read, once it is there, is no harm"
