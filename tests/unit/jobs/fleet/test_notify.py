"""Notifier nodes of their runs: what comes back goes elsewhere, and what may have begun stays."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.jobs.core.due import new_run
from rota.jobs.core.outcome import bind
from rota.jobs.core.records import Cause, JobSpec, order_for
from rota.jobs.fleet.notify import Bound, Notifier
from rota.jobs.fleet.view import Live
from rota.kit.time import virtual
from rota.link.records import Accepted, AttemptRefused, StartAttempt
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision, SessionId
from tests.kit.virtual_trials import CLOCK

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JOB = JobSpec(name="a", argv=("true",))
N2 = NodeId("n2")


class Line:
    """A link that fails as the test says, and then stays silent."""

    def __init__(self, *errors: RotaError) -> None:
        self.errors, self.asked = list(errors), 0

    async def dispatch_many(
        self, starts: Sequence[StartAttempt], *, timeout: timedelta | None = None
    ) -> list[Accepted | AttemptRefused]:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return [Accepted() for _ in starts]


def told(line: Line) -> Notifier:
    """What became of a run that a node was told of."""

    async def story() -> Notifier:
        link: Any = line
        notifier = Notifier(lambda _: link, lambda _: True, CLOCK, lambda *_: None)
        run = bind(new_run(JOB, NOW, Cause.SCHEDULE, NOW), N2, SessionId("s"), NOW)
        notifier.notify([Bound(Live(run, Revision(5)), order_for(run, JOB, Revision(5)))])
        await asyncio.sleep(10)
        await notifier.close()
        return notifier

    return virtual.run(story())


@pytest.mark.parametrize("error", [Denied("no"), Invalid("what"), Unavailable("away")])
def test_a_run_that_certainly_did_not_begin_goes_elsewhere(error: RotaError) -> None:
    line = Line(error)
    assert len(told(line).refused) == 1
    assert line.asked == 1


@pytest.mark.parametrize("error", [Denied("no"), Invalid("what"), Unavailable("away")])
def test_a_run_that_may_have_begun_stays_whatever_is_answered_later(error: RotaError) -> None:
    line = Line(Unknown("no answer"), error)
    assert told(line).refused == []
    assert line.asked == 3
