"""A stream in miniature: a log, an output, tasks that come late, die and go on unasked, and a leader that looks away.

Everything that happens is drawn from one random source. What a task publishes is what it has read, record by record, so
that the output can be compared with the log.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from rota.committers.verdict import Turn, judge
from rota.decide.streams import chain
from rota.decide.streams.group import Member, Tuning
from rota.decide.streams.plan import Aims, plan
from rota.model.ids import NodeId, Revision
from rota.model.manifest import Range
from rota.model.stream import Group, Phase, StreamTaskStatus, TaskState

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
TUNING = Tuning(
    duration=timedelta(seconds=15),
    completion_timeout=timedelta(seconds=20),
    status_timeout=timedelta(seconds=8),
    pause_timeout=timedelta(seconds=3),
)


@dataclass
class Task:
    """A process that reads what its group says, as far as it has heard."""

    slot: int
    epoch: Revision
    placed: datetime
    ready: datetime
    seen: Group
    """The group's record as it knows it."""

    is_mute: bool = False
    """Does it go on without ever saying anything?"""

    is_stuck: bool = False
    state: TaskState = TaskState.STARTING
    started: datetime | None = None
    sequence: int = 0
    start: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    rows: list[tuple[int, int]] = field(default_factory=list)
    progress: int = 0
    error: str = ""
    wants: str = ""

    def status(self, now: datetime) -> StreamTaskStatus:
        """What it says."""
        return StreamTaskStatus(
            stream="s",
            group=self.seen.id,
            slot=self.slot,
            node=NodeId("n"),
            epoch=self.epoch,
            state=self.state,
            started=self.started,
            sequence=self.sequence,
            offsets=dict(self.offsets),
            progress=self.progress,
            wants_checkpoint=self.wants,
            error=self.error,
            at=now,
        )


class SmallFleet:
    """One stream, its tasks, and everything that goes wrong with them."""

    def __init__(self, seed: int, *, partitions: int = 3, tasks: int = 2, replicas: int = 2) -> None:
        self.chance = Random(seed)
        self.now = NOON
        self.log = dict.fromkeys(range(partitions), 0)
        self.committed = dict.fromkeys(range(partitions), 0)
        self.output: list[tuple[int, int]] = []
        self.aims = Aims(stream="s", spec="1", tasks=tasks, partitions=range(partitions), tuning=TUNING)
        self.replicas = replicas
        self.groups: dict[str, Group] = {}
        self.tasks: dict[tuple[str, int], Task] = {}
        self.orphans: list[Task] = []
        """Tasks that were told to end and have not heard it."""

        self.statuses: dict[tuple[str, int], StreamTaskStatus] = {}
        self.given_up: list[str] = []
        self.has_faults = True
        self._epoch = 0

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now += timedelta(seconds=self.chance.choice((0.1, 0.3, 1.0)))
            self._grow()
            if self.chance.random() < (0.7 if self.has_faults else 1):  # there is not always a leader
                self._lead()
            self._place()
            for key, task in list(self.tasks.items()):
                self._turn(task)
                if not task.is_mute and (not self.has_faults or self.chance.random() < 0.8):
                    self.statuses[key] = task.status(self.now)
            for task in list(self.orphans):
                self._turn(task)
                if self.chance.random() < 0.1:
                    self.orphans.remove(task)
            if self.has_faults:
                self._harm()

    def stop_growing(self) -> None:
        """No more records, no more faults."""
        self.has_faults = False
        for task in self.tasks.values():
            task.is_mute = task.is_stuck = False

    # The world

    def _grow(self) -> None:
        if self.has_faults:
            for partition in self.log:
                self.log[partition] += self.chance.randint(0, 5)

    def _lead(self) -> None:
        members: dict[str, list[Member]] = {}
        for (group, slot), task in self.tasks.items():
            status = self.statuses.get((group, slot))
            known = status if status and status.epoch == task.epoch else None
            member = Member(slot=slot, epoch=task.epoch, node=NodeId("n"), placed=task.placed, status=known)
            members.setdefault(group, []).append(member)
        made = plan(self.aims, list(self.groups.values()), members, dict(self.committed), self.now)
        self.groups = made.groups
        self.given_up += made.given_up.values()

    def _place(self) -> None:
        for key, task in list(self.tasks.items()):
            group = self.groups.get(key[0])
            dismissal = group.dismissed.get(key[1]) if group else None
            if group is None or (dismissal and task.epoch <= dismissal.epoch):
                self.orphans.append(self.tasks.pop(key))
        for group in self.groups.values():
            for slot in range(self.replicas):
                if (group.id, slot) not in self.tasks and self.chance.random() < 0.5:
                    self._epoch += 1
                    wait = timedelta(seconds=self.chance.choice((0, 1, 2)))
                    is_mute = self.has_faults and self.chance.random() < 0.05
                    self.tasks[group.id, slot] = Task(
                        slot, Revision(self._epoch), self.now, self.now + wait, group, is_mute=is_mute
                    )

    def _harm(self) -> None:
        if self.tasks and self.chance.random() < 0.05:
            del self.tasks[self.chance.choice(list(self.tasks))]  # killed
        if self.tasks and self.chance.random() < 0.03:
            self.chance.choice(list(self.tasks.values())).is_stuck = True
        if self.chance.random() < 0.01:
            self.aims = replace(self.aims, tasks=self.chance.choice((1, 2, 3)))
        if self.chance.random() < 0.01:
            self.aims = replace(self.aims, spec=str(self.chance.randint(1, 9)))
        if self.chance.random() < 0.005:
            self.log[len(self.log)] = self.committed[len(self.committed)] = 0
            self.aims = replace(self.aims, partitions=range(len(self.log)))

    # A task's turn

    def _turn(self, task: Task) -> None:
        if task.is_stuck or task.state in (TaskState.FAILED, TaskState.DONE) or self.now < task.ready:
            return
        if task.seen.id in self.groups and self.chance.random() < 0.8:
            task.seen = self.groups[task.seen.id]
        group = task.seen
        if group.phase is Phase.STANDBY:
            task.state = TaskState.STANDBY
            return
        if task.started is None:
            task.started = self.now
            task.sequence, task.start = chain.next_offsets(group, self.committed)
            task.offsets, task.state = dict(task.start), TaskState.READING
        if task.sequence < len(group.sequences):
            self._close(task, group.sequences[task.sequence])
        elif group.phase is Phase.PAUSING:
            task.state = TaskState.PAUSED
        elif group.phase is Phase.PUBLISHING:
            task.state = TaskState.DONE
        else:
            task.state = TaskState.READING
            self._read(task, self.log)
            task.wants = "rows" if len(task.rows) > 40 else ""

    def _read(self, task: Task, until: dict[int, int]) -> None:
        for partition in task.seen.partitions:
            at = task.offsets[partition]
            end = max(at, min(at + self.chance.randint(0, 8), until[partition], self.log[partition]))
            task.rows += [(partition, offset) for offset in range(at, end)]
            task.progress += end - at
            task.offsets[partition] = end

    def _close(self, task: Task, ends: dict[int, int]) -> None:
        task.state = TaskState.PUBLISHING if task.seen.phase is Phase.PUBLISHING else TaskState.READING
        if any(task.offsets[partition] > end for partition, end in ends.items()):
            task.state, task.error = TaskState.FAILED, "it read past what was agreed"
            return
        self._read(task, ends)
        if task.offsets != ends:
            return
        ranges = [Range(partition=each, start=task.start[each], end=ends[each]) for each in ends]
        verdict = judge(self.committed, ranges)
        if verdict.turn is Turn.BEHIND:
            task.state, task.error = TaskState.FAILED, verdict.why
        if verdict.turn is Turn.PUBLISHED:
            self.output += task.rows
            self.committed |= ends
        if verdict.turn in (Turn.PUBLISHED, Turn.THERE):
            task.rows, task.start, task.wants = [], dict(ends), ""
            task.sequence += 1
            task.progress += 1
