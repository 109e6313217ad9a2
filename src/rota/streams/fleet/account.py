"""The account of a stream: what a leader has seen of it, and the status that says so."""

import logging
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta

from rota.kit.record import replace
from rota.streams.core import chain
from rota.streams.core.health import Quiet, StreamHealth, dropped, state
from rota.streams.core.plan import GroupPlan
from rota.streams.core.records import Group, StreamError, StreamState, StreamStatus, StreamTaskStatus, StreamWishes
from rota.streams.core.scale import Lags, Scaling
from rota.streams.core.spec import StreamSpec
from rota.streams.fleet.outside import Outside

log = logging.getLogger(__name__)

ERRORS = 10
"""How many of the last errors are shown."""

LONGEST = 500
"""Characters of an error that is shown."""

UNWELL = (StreamState.PENDING, StreamState.UNHEALTHY_SUPERVISOR, StreamState.UNHEALTHY_TASKS)
"""States that the last error explains."""


class Account:
    """What is known of one stream."""

    def __init__(self, stream: str, outside: Outside) -> None:
        self.said: StreamStatus | None = None
        """The status that was written last."""

        self.committed: dict[int, int] = {}
        self.waits = ""
        """Why some partitions wait for an operator, if any do."""

        self.delay = ""
        """Why it has not begun, if its declaration delays it."""

        self.dropped: Counter[str] = Counter()
        """Records of published groups that made no rows, by reason."""

        self._trouble = ""
        """Why a task cannot read or publish at the moment, if so."""

        self.upto: dict[int, int] = {}
        self.upto_as = ""
        """Where the stream ends, if it does, and how that was declared."""

        self.tasks = 0
        """Task groups that the lag requires; 0: the declared number."""

        self.is_idle = False
        self._lags = Lags()
        self._stream, self._outside = stream, outside
        self._health, self._quiet = StreamHealth(), Quiet()
        self._errors: list[StreamError] = []

    @property
    def generation(self) -> int:
        """The highest generation any group ever had."""
        return self.said.generation if self.said else 0

    @property
    def identity(self) -> str | None:
        """The source that is there, or was when it was last reached."""
        return self._outside.identity or (self.said.identity if self.said else None)

    @property
    def is_made_anew(self) -> bool:
        """Is the source another one than the stream has read?"""
        known, now = self.said.identity if self.said else None, self._outside.identity
        return None not in (known, now) and known != now

    @property
    def is_complete(self) -> bool:
        """Is everything in the output up to where the stream ends?"""
        return chain.is_complete({each: self.committed.get(each, -1) for each in self.upto}, self.upto)

    @property
    def lag(self) -> int:
        """Records that are in the source, and not in the output where they should be."""
        ends = {each: min(bounds.end, self.upto.get(each, bounds.end)) for each, bounds in self._outside.bounds.items()}
        return sum(max(0, ends[each] - at) for each, at in self.committed.items() if each in ends)

    def read(self, said: StreamStatus | None) -> None:
        """Adopt the status in the store."""
        self.said = said
        if said is not None:
            self.upto, self.upto_as, self.tasks = said.upto, said.upto_as, said.tasks
            self.dropped = Counter(said.dropped)
            self._errors = self._errors or list(said.errors)

    def adopt_source(self, now: datetime) -> None:
        """Take the source as it is now for the one that the stream reads."""
        self.said = replace(self._before(now), identity=self._outside.identity)

    def looked(self, *, is_good: bool) -> None:
        """Source and output were looked at."""
        self._health = self._health.looked(is_good=is_good)

    def saw_trouble(self, trouble: str, now: datetime) -> None:
        """Note why a task cannot read or publish at the moment, or that all can."""
        self._trouble = trouble
        self._health = self._health.saw_trouble(trouble, now)

    def look_for_quiet(self, idle_after: timedelta | None, now: datetime) -> None:
        """Note whether records arrive."""
        self._quiet.look(self._latest(), self.lag, now)
        self.is_idle = self._quiet.is_idle(idle_after, now)

    def scale(self, spec: StreamSpec, now: datetime) -> int:
        """Set how many task groups there should be, by the lag of the last while."""
        if spec.tasks_most is None:
            self.tasks = 0
            return spec.tasks
        before = self.tasks or spec.tasks
        if self.is_idle:
            self._lags.forget()
            return before
        scaling = Scaling(
            least=spec.tasks,
            most=max(spec.tasks, min(spec.tasks_most, len(self._outside.bounds))),
            high=spec.scale_out_lag,
            low=spec.scale_in_lag,
            over=spec.scale_over,
        )
        self._lags.see(self.lag, spec.scale_over, now)
        if (wanted := self._lags.wanted(before, scaling, now)) != before:
            self.tasks = wanted
            self._lags.forget()
        return wanted

    def planned(
        self, before: dict[str, Group], found: GroupPlan, tasks: Collection[StreamTaskStatus], now: datetime
    ) -> None:
        """Note which groups failed or were published, and the dropped records of those that were published."""
        self.dropped += dropped(found.published, tasks)
        failures = [f"group {id} is given up: {why}" for id, why in found.given_up.items()]
        failures += [f"task {group.id}#{slot}: {why}" for group, slot, why in dismissals(before, found)]
        for why in failures:
            self.failed(why, now)
        agreed = [id for id, group in found.groups.items() if id in before and group.ends != before[id].ends]
        self._health = self._health.tasked(
            failures=len(failures), agreements=len(agreed), publishes=len(found.published)
        )

    def failed(self, why: str, now: datetime) -> None:
        """Note an error; if it equals the last one, only the time of that one is updated."""
        why = why[:LONGEST]
        if self._errors and self._errors[-1].why == why:
            self._errors.pop()
        else:
            log.warning("stream has trouble", extra={"stream": self._stream, "why": why})
        self._errors = [*self._errors[-(ERRORS - 1) :], StreamError(at=now, why=why)]

    def status(self, wishes: StreamWishes, groups: Collection[Group], now: datetime) -> StreamStatus:
        """How it is now."""
        before = self._before(now)
        is_complete = self.is_complete and not groups
        is_troubled = self._health.is_troubled(now)
        found = state(self._health, wishes, is_idle=self.is_idle, is_complete=is_complete, is_troubled=is_troubled)
        error = self._errors[-1].why if self._errors and found in UNWELL and not is_troubled else ""
        return StreamStatus(
            stream=self._stream,
            state=found,
            detail=self.waits or self.delay or error or self._trouble,
            waits=self.waits,
            since=before.since if before.state is found else now,
            generation=max((before.generation, *(group.generation for group in groups))),
            identity=before.identity or self._outside.identity,
            phases=dict(Counter(group.phase.value for group in chain.in_order(groups))),
            committed=self.committed or before.committed,
            latest=self._latest() or before.latest,
            lag=self.lag,
            dropped=dict(self.dropped),
            tasks=self.tasks,
            upto=self.upto,
            upto_as=self.upto_as,
            errors=tuple(self._errors),
        )

    def _before(self, now: datetime) -> StreamStatus:
        return self.said or StreamStatus(stream=self._stream, since=now)

    def _latest(self) -> dict[int, int]:
        return {each: bounds.end for each, bounds in self._outside.bounds.items()}


def dismissals(before: dict[str, Group], found: GroupPlan) -> list[tuple[Group, int, str]]:
    """The tasks that a plan dismisses, and why."""
    return [
        (group, slot, dismissal.why)
        for id, group in found.groups.items()
        for slot, dismissal in group.dismissed.items()
        if id not in before or before[id].dismissed.get(slot) != dismissal
    ]
