"""Work in a child of this process."""

import gc
import os
import signal

import pytest

from rota.kit.child import in_a_child
from rota.model.errors import Invalid

# A worker of xdist has a thread, of which nothing here knows; Python warns of that since 3.12.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def test_what_the_work_returns_comes_back_and_the_child_is_gone() -> None:
    child, collects = in_a_child(lambda: (os.getpid(), gc.isenabled()))
    assert child != os.getpid()
    assert not collects
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_nothing_that_the_work_does_stays() -> None:
    kept: list[int] = []
    in_a_child(lambda: kept.append(1))
    assert kept == []


def test_what_the_work_raises_is_raised_and_tells_where() -> None:
    def fail() -> None:
        raise Invalid("that is no seed")

    with pytest.raises(Invalid, match="that is no seed") as raised:
        in_a_child(fail)
    assert "in fail" in "".join(raised.value.__notes__)


def test_a_child_that_is_killed_is_told() -> None:
    with pytest.raises(RuntimeError, match="exit code -9"):
        in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
