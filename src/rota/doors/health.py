"""Health: does this node make progress, and may it be given more work?

There are two kinds of tests. Each loop that must not stand still is expected to stamp its progress within a limit, so
that a node whose loops hang does not count as healthy because it still answers. And checks run when a probe asks; each
returns None, or the reason why not.

`judge` decides, on data; `HealthChecks` holds the stamps and runs the checks. `doors.http.door` shows both.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeAlias

import msgspec

from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.kit.time.instant import Instant

Check: TypeAlias = Callable[[], str | None]
"""None: well. Text: why not. It must answer at once."""


class LoopProgress(msgspec.Struct, frozen=True):
    """When a loop last made progress, and how long ago that may be."""

    at: Instant
    within: timedelta


class HealthVerdict(msgspec.Struct, frozen=True):
    """What is wrong, by name; nothing if all is well."""

    reasons: Mapping[str, str]

    @property
    def is_well(self) -> bool:
        """Is there nothing wrong?"""
        return not self.reasons


def judge(progress: Mapping[str, LoopProgress], answers: Mapping[str, str | None], now: Instant) -> HealthVerdict:
    """The verdict on loops and checks, in the order they were registered."""
    reasons = {}
    for name, last in progress.items():
        silent = timedelta(seconds=now - last.at)
        if silent > last.within:
            shown = durations.render(timedelta(seconds=round(silent.total_seconds())))
            reasons[name] = f"no progress for {shown}, at most {durations.render(last.within)} is expected"
    reasons |= {name: why for name, why in answers.items() if why is not None}
    return HealthVerdict(reasons)


class HealthChecks:
    """The loops and checks of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._progress: dict[str, LoopProgress] = {}
        self._checks: dict[str, Check] = {}
        self._ready_checks: dict[str, Check] = {}

    def expect(self, name: str, within: timedelta) -> Callable[[], None]:
        """Expect progress of a loop from now on; it calls what is returned whenever it has done something."""

        def stamp() -> None:
            # A loop that was forgotten meanwhile stays forgotten.
            if name in self._progress:
                self._progress[name] = LoopProgress(self._clock.monotonic(), within)

        self._progress[name] = LoopProgress(self._clock.monotonic(), within)
        return stamp

    def forget(self, name: str) -> None:
        """Expect nothing more of a loop that ended in order; fine if nothing was."""
        self._progress.pop(name, None)

    def check(self, name: str, ask: Check) -> None:
        """Add a check; while it fails the node is neither healthy nor ready."""
        self._checks[name] = ask

    def check_ready(self, name: str, ask: Check) -> None:
        """Add a check; while it fails the node may be healthy, but should get no new work."""
        self._ready_checks[name] = ask

    def healthy(self) -> HealthVerdict:
        """Does the node make progress?"""
        return judge(self._progress, _answers(self._checks), self._clock.monotonic())

    def ready(self) -> HealthVerdict:
        """Is the node healthy, and may it be given more work?"""
        return judge(self._progress, _answers({**self._checks, **self._ready_checks}), self._clock.monotonic())


def _answers(checks: Mapping[str, Check]) -> dict[str, str | None]:
    return {name: _answer(ask) for name, ask in checks.items()}


def _answer(ask: Check) -> str | None:
    """The result of a check; one that raises reports that, and does not hide the results of the others."""
    try:
        return ask()
    except Exception as error:
        return f"the check itself failed: {error!r}"
