"""However a job's function ends, the attempt has an error that can be sent, and the executor lives on."""

import os
from types import SimpleNamespace

import pytest

from rota.jobs.node.run_attempt import AttemptStop, run_attempt
from rota.runtime.pipes.brief import Attempt
from rota.sdk.context import Run


class Strange(BaseException):
    """What a library's own way of cancelling looks like."""


class Mute(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise ValueError("nothing to say")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(OSError(os.fsdecode(b"caf\xe9")), ("OSError: caf\\udce9", None), id="lone surrogate"),
        pytest.param(SystemExit(os.fsdecode(b"caf\xe9")), ("caf\\udce9", 1), id="exit with a lone surrogate"),
        pytest.param(Strange("time is up"), ("Strange: time is up", None), id="BaseException"),
        pytest.param(
            Mute(), ("Mute: its message cannot be read, str() raises ValueError", None), id="an error without a message"
        ),
    ],
)
def test_an_attempt_fails_with_a_reason(error: BaseException, said: tuple[str, int | None]) -> None:
    def function(run: Run) -> None:
        raise error

    app = SimpleNamespace(jobs={"nightly": SimpleNamespace(function=function)})
    assert run_attempt(app, Attempt("r1", 1, "nightly"), AttemptStop()) == said
