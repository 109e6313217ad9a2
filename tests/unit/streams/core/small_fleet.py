"""A stream in miniature: a log, an output, tasks that come late, die and go on unasked, and a leader that looks away.

Everything that happens is drawn from one random source. What a task publishes is what it has read, record by record, so
that the output can be compared with the log.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision
from rota.outputs.verdict import Turn, judge
from rota.streams.core.group import GroupMember, Tuning
from rota.streams.core.plan import Aims, plan
from rota.streams.core.records import Group, StreamTaskStatus, TaskState
from rota.streams.task.progress import Next, TaskProgress

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

    placed: datetime
    ready: datetime
    way: TaskProgress
    is_mute: bool = False
    """Does it go on without ever saying anything?"""

    is_stuck: bool = False
    started: datetime | None = None
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Sequence → what it has read of it."""

    @property
    def wants(self) -> str:
        """Why it wants a checkpoint."""
        return "rows" if len(self.rows.get(self.way.number, ())) > 40 else ""

    def status(self, now: datetime) -> StreamTaskStatus:
        """What it says."""
        way = self.way
        return StreamTaskStatus(
            stream="s",
            group=way.group.id,
            slot=way.slot,
            node=NodeId("n"),
            epoch=way.epoch,
            state=way.state if self.ready <= now else TaskState.STARTING,
            started=self.started,
            sequence=way.number,
            offsets=dict(way.offsets),
            progress=way.moves,
            wants_checkpoint=self.wants,
            error=way.error,
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
        members: dict[str, list[GroupMember]] = {}
        for (group, slot), task in self.tasks.items():
            status = self.statuses.get((group, slot))
            known = status if status and status.epoch == task.way.epoch else None
            member = GroupMember(slot=slot, epoch=task.way.epoch, node=NodeId("n"), placed=task.placed, status=known)
            members.setdefault(group, []).append(member)
        made = plan(self.aims, list(self.groups.values()), members, dict(self.committed), self.now)
        self.groups = made.groups
        self.given_up += made.given_up.values()

    def _place(self) -> None:
        for key, task in list(self.tasks.items()):
            group = self.groups.get(key[0])
            dismissal = group.dismissed.get(key[1]) if group else None
            if group is None or (dismissal and task.way.epoch <= dismissal.epoch):
                self.orphans.append(self.tasks.pop(key))
        for group in self.groups.values():
            for slot in range(self.replicas):
                if (group.id, slot) not in self.tasks and self.chance.random() < 0.5:
                    self._epoch += 1
                    wait = timedelta(seconds=self.chance.choice((0, 1, 2)))
                    is_mute = self.has_faults and self.chance.random() < 0.05
                    way = TaskProgress(slot=slot, epoch=Revision(self._epoch), group=group)
                    self.tasks[group.id, slot] = Task(self.now, self.now + wait, way, is_mute=is_mute)

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
        way = task.way
        if task.is_stuck or self.now < task.ready or way.next is Next.END:
            return
        if self.chance.random() < 0.8:
            way.heard(self.groups.get(way.group.id))
        if not way.starts and way.group.starts:
            task.started = self.now
            way.begin(self.committed)
        if way.next is Next.READ:
            self._read(task)
        if way.closed and self.chance.random() < 0.7:
            self._publish(task)

    def _read(self, task: Task) -> None:
        way = task.way
        for partition in way.group.partitions:
            number, at = way.number, way.offsets[partition]
            until = self.log[partition] if way.ends is None else min(way.ends[partition], self.log[partition])
            end = max(at, min(at + self.chance.randint(0, 8), until))
            task.rows.setdefault(number, []).extend((partition, offset) for offset in range(at, end))
            way.read(partition, end, end - at)
            if way.number > number:
                return

    def _publish(self, task: Task) -> None:
        [sequence, *_] = task.way.closed
        verdict = judge(self.committed, sequence.ranges)
        if verdict.turn is Turn.PUBLISHED:
            self.output += task.rows.get(sequence.number, [])
            self.committed |= {each.partition: each.end for each in sequence.ranges}
        task.way.told(sequence, verdict)
