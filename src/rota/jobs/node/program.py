"""Becoming a program: the worker of a command's attempt replaces itself with the program.

Nothing of the app runs here. The worker was forked like any other, so the program leads a session of its own, ends with
the agent, and ends when the node's lease does; it finds out by variables which attempt it is.
"""

import os
import signal
from collections.abc import Mapping
from typing import NoReturn

from rota.kit.faults import sendable
from rota.runtime.pipes.brief import OUTPUT, Attempt
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.worker import StartFailed
from rota.runtime.worker.roles import Setup
from rota.sdk.app import App

NOT_FOUND = 127
"""The exit code that shells use for a program that cannot be run."""


def become_program(app: App, setup: Setup) -> NoReturn:
    """Run the program of the worker's attempt in this process; if that fails, report why to the agent and end."""
    attempt, extras = setup.brief.attempt, setup.extras
    assert attempt is not None
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # ignored by Python or Rota; programs expect to be ended by them
    try:
        if attempt.cwd is not None:
            os.chdir(attempt.cwd)
        os.dup2(extras[OUTPUT], 1)
        os.dup2(extras[OUTPUT], 2)
        os.execvpe(attempt.argv[0], attempt.argv, environment(attempt, os.environ))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        what = f"program {attempt.argv[0]}" if os.path.isdir(attempt.cwd or ".") else f"folder {attempt.cwd}"
        Pipe(setup.sock).send(StartFailed(sendable(f"{what}: {why}")))
    os._exit(NOT_FOUND)


def environment(attempt: Attempt, usual: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command: the node's own, the declared ones, and which attempt it is."""
    return {
        **usual,
        **attempt.env,
        "RUN_TOKEN": str(attempt.token),
        "ROTA_RUN": attempt.run,
        "ROTA_JOB": attempt.job,
        "ROTA_ATTEMPT": str(attempt.attempt),
        "ROTA_DUE": attempt.due.isoformat() if attempt.due else "",
    }
