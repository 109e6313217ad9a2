"""Forking beside native threads: what is told, and what is not."""

import os
import threading
import warnings

import pytest

from rota.runtime.loader import main as loader
from rota.runtime.system import kernel


def test_the_warning_about_native_threads_is_not_shown_and_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        text = f"This process (pid={os.getpid()}) is multi-threaded, use of fork() may lead to deadlocks in the child."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return 0

    monkeypatch.setattr(os, "fork", fork)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        assert kernel.fork() == 0
        assert warnings.filters == before, "the child would miss warnings of the app"
        warnings.warn("another", DeprecationWarning, stacklevel=1)
    assert [str(each.message) for each in seen] == ["another"]


def test_threads_of_python_are_no_native_ones() -> None:
    over = threading.Event()
    before = kernel.native_threads()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert kernel.native_threads() == before
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["jemalloc_bg_thd"], ""),
        (["blas"] * 8 + ["jemalloc_bg_thd", "poller"], "blas (8), poller;"),
    ],
)
def test_native_threads_that_are_not_known_to_be_harmless_are_named(
    monkeypatch: pytest.MonkeyPatch, names: list[str], told: str
) -> None:
    monkeypatch.setattr(kernel, "native_threads", lambda: names)
    assert told in "".join(loader._warnings())
    assert bool(loader._warnings()) == bool(told)
