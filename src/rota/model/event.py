"""Events: what happened in the fleet, for people who ask later.

An event is one sentence about one thing (its subject), with fields for programs. `KINDS` is the schema: every kind
there is, how severe it is, the sentence it makes, and the fields it has; `docs/reference/events.md` is checked against
it. A kind may get more fields in a later release.

An event's id begins with its time, so that ids sort as events happened; the time is by the clock of the node that saw
it, and clocks may disagree. Ids are unique: a number and the node's name follow the time.

Nothing here writes anywhere; `fleet.events.event_log` does.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from rota.model.codec import stored
from rota.model.errors import Invalid
from rota.model.ids import NodeId

Value: TypeAlias = str | int | float | bool | None
"""What a field may hold."""

LONGEST = 1000
"""Characters of a text or a field; what is longer is cut."""

_FIELD = re.compile(r"\{(\w+)\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DIGITS = 15
"""Of the time in an id, in milliseconds: enough for thirty thousand years."""


class Severity(StrEnum):
    """How urgent an event is."""

    INFO = "info"
    """For the record; nothing to do."""

    WARNING = "warning"
    """An operator should check it."""

    ERROR = "error"
    """Work or data was given up."""


@stored()
class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    id: str
    """The id of the event; ids sort by time."""

    at: datetime
    """When, by the clock of the node that saw it."""

    kind: str
    """The kind of event, such as `node.joined`."""

    subject: str
    """What it happened to: a node, a worker, an app."""

    node: NodeId
    """The node that recorded it."""

    severity: Severity
    """How urgent it is: info, warning or error."""

    text: str
    """A sentence for people."""

    fields: dict[str, Value]
    """What else is known, by name; the reference of events lists the fields of each kind."""


class EventKind(msgspec.Struct, frozen=True):
    """One kind of event."""

    severity: Severity
    says: str
    """The sentence; a field `why`, if there is one, follows behind a colon."""

    doc: str
    fields: Mapping[str, str]
    """What its fields mean."""


_WHY = {"why": "the reason"}
_WAITED = {"seconds": "how long it has waited"}
_TERM = {"term": "the leader's term"}
_POOL = {"pool": "what the worker belongs to"}
_GENERATION = {"generation": "the number of its generation"}
_PREVIOUS = {"previous": "the generation before"}

KINDS: Mapping[str, EventKind] = {
    "node.joined": EventKind(Severity.INFO, "node {subject} joined", "A node joined the fleet.", _TERM),
    "node.restarted": EventKind(Severity.INFO, "node {subject} began a new session", "A node joined again.", _TERM),
    "node.left": EventKind(Severity.WARNING, "node {subject} left", "A node left, or its lease ended.", _TERM),
    "node.insecure": EventKind(
        Severity.WARNING,
        "node {subject} accepts other machines without TLS",
        "A node was started with `insecure`: tokens and all other data are sent unencrypted.",
        {"http": "where it answers HTTP", "grpc": "where it answers gRPC"},
    ),
    "node.drained": EventKind(
        Severity.INFO,
        "node {subject} is drained",
        "The last task has left a drained node.",
        {"tasks": "how many the node had when the drain began"},
    ),
    "rule.failed": EventKind(
        Severity.WARNING,
        "rule {subject} raised an error, and is skipped where it does",
        "A user's placement rule raised an error or returned an invalid value.",
        _WHY,
    ),
    "node.offline": EventKind(
        Severity.WARNING,
        "node {subject} is offline",
        "Most of the other nodes cannot reach a node, or it is no longer in the fleet: it gets no work.",
        _WHY,
    ),
    "node.online": EventKind(Severity.INFO, "node {subject} is online again", "A node that was offline answers.", _WHY),
    "node.cut_off": EventKind(
        Severity.WARNING,
        "node {subject} reaches no other node",
        "A node's checks of all other nodes failed; it considers itself cut off, and reports none of them.",
        _WHY,
    ),
    "leader.elected": EventKind(Severity.INFO, "node {subject} leads", "A term began.", _TERM),
    "worker.exited": EventKind(
        Severity.WARNING,
        "worker {subject} exited",
        "A worker ended unexpectedly.",
        {**_POOL, **_GENERATION, "stacks": "the file with its stacks, if there is one", **_WHY},
    ),
    "loader.exited": EventKind(
        Severity.WARNING,
        "{subject} exited, and is started again",
        "A loader ended unexpectedly; its workers keep running.",
        {**_GENERATION, **_WHY},
    ),
    "worker.crash_loop": EventKind(
        Severity.ERROR,
        "worker {subject} keeps failing",
        "A worker failed several times in a row; it is restarted with growing delays.",
        {**_POOL, "falls": "how often it failed in a row", **_WHY},
    ),
    "worker.stalled": EventKind(
        Severity.WARNING,
        "worker {subject} is blocked, and is killed and replaced",
        "A worker's event loop was blocked for `stall_after`.",
        {"pid": "its process", **_WHY},
    ),
    "worker.killed": EventKind(
        Severity.WARNING,
        "worker {subject} was killed",
        "A worker exceeded a request's deadline, or did not end in time after the request to stop.",
        {**_POOL, **_GENERATION, "stacks": "the file with its stacks, if there is one", **_WHY},
    ),
    "worker.held_up": EventKind(
        Severity.WARNING,
        "worker {subject} does not end: it has had a request for {seconds} s",
        "A service's worker was replaced or is no longer needed, and ends when its requests are done; that takes "
        "longer than `drain`. A `timeout` for its cmd limits this. Repeated after twice the time, and so on.",
        {
            **_POOL,
            "pid": "of the worker",
            "cmd": "of the oldest request",
            "seconds": "since the worker got it",
            "requests": "that the worker has",
            "generation": "of the worker",
        },
    ),
    "worker.recycled": EventKind(
        Severity.INFO, "worker {subject} is replaced", "A worker reached its age, its count or its memory.", _WHY
    ),
    "task.given_back": EventKind(
        Severity.WARNING,
        "task {subject} is given back by its node",
        "A task failed repeatedly, or gave no sign of life; the leader places it again, on another node if possible. "
        "If a task keeps failing on a node, only the first, second, fourth, eighth … time is an event.",
        {"epoch": "of its placement", "falls": "how often it failed there in a row", **_WHY},
    ),
    "resource.waits": EventKind(
        Severity.WARNING,
        "resource {subject} has lacked tasks for {seconds} s",
        "A resource has had fewer tasks than it should for `supervisor.pending_after`. Reported once until it is "
        "over, for at most 50 resources at a time.",
        _WAITED | _WHY,
    ),
    "resource.wait_over": EventKind(
        Severity.INFO,
        "resource {subject} no longer lacks tasks, after {seconds} s",
        "A resource reported by `resource.waits` has all its tasks, or was deleted.",
        _WAITED,
    ),
    "task.set_apart": EventKind(
        Severity.WARNING,
        "task {subject} keeps ending its host, and now runs in a process of its own",
        "A task repeatedly ended the process that it shared with other tasks, and was identified as the cause.",
        {"epoch": "of its placement", **_WHY},
    ),
    "reload.begun": EventKind(
        Severity.INFO, "reload to {subject} began", "The app's code is being loaded again.", _PREVIOUS
    ),
    "reload.done": EventKind(
        Severity.INFO, "reload to {subject} is done", "The new generation has taken over.", _PREVIOUS
    ),
    "reload.failed": EventKind(
        Severity.ERROR,
        "{subject} failed; the old generation stays",
        "A new generation could not be loaded or did not run, or a rollback to the previous one failed.",
        _WHY,
    ),
    "reload.rolled_back": EventKind(
        Severity.WARNING,
        "the app is back at {subject}",
        "A rollback to the previous generation was requested.",
        _PREVIOUS,
    ),
    "app.failed": EventKind(
        Severity.ERROR, "app {subject} cannot be loaded", "Importing the app failed.", {**_GENERATION, **_WHY}
    ),
    "source.applied": EventKind(
        Severity.INFO,
        "the list of {subject} changed, and is applied",
        "The source of a kind returned a list that differs from the stored one.",
        {"added": "resources added", "changed": "resources changed", "removed": "resources removed"},
    ),
    "source.held": EventKind(
        Severity.WARNING,
        "the list of {subject} is held, the old one stays",
        "The source of a kind returned an empty list, or one that drops more than half.",
        _WHY,
    ),
    "source.failed": EventKind(
        Severity.WARNING,
        "the source of {subject} returned no valid list, the old one stays",
        "The source of a kind raised an error, took too long, or returned an invalid list.",
        _WHY,
    ),
    "config.failed": EventKind(
        Severity.WARNING,
        "{subject} of the settings cannot be applied, the old state stays",
        "A resource in the settings is not valid, or the file could not be read again.",
        _WHY,
    ),
    "config.pending": EventKind(
        Severity.WARNING,
        "{subject} of the settings changed, and takes effect when the node is restarted",
        "Settings were read again at a reload, and some have changed that a node reads only when it starts.",
        {},
    ),
    "proxy.exited": EventKind(
        Severity.WARNING,
        "{subject} exited, and is started again",
        "A proxy ended unexpectedly: its clients' connections are lost, its listening sockets are not.",
        {"pid": "its process"},
    ),
    "relay.exited": EventKind(
        Severity.WARNING,
        "the relay of {subject} exited, and is started again",
        "A relay ended unexpectedly; messages that it had not acked are sent again.",
        {"pid": "its process"},
    ),
    "relay.mapped": EventKind(
        Severity.INFO,
        "relay map {subject} is in force",
        "The messages of some resources are collected at another relay.",
        {"nodes": "the nodes of the new relays", "before": "the nodes before; none: no node is waited for", **_TERM},
    ),
    "relay.unsent": EventKind(
        Severity.WARNING,
        "worker {subject} ended with messages that the relay had not acked",
        "The last messages of the worker's tasks may be lost, unless another replica emitted them too.",
        {"count": "how many messages"},
    ),
    "stream.state": EventKind(
        Severity.INFO,
        "stream {subject} is {state}",
        "A stream's state changed.",
        {"state": "the new state", **_WHY},
    ),
    "stream.given_up": EventKind(
        Severity.WARNING,
        "group {group} of stream {subject} is given up; its records are read again",
        "A group could not publish: another group reads its records again from the committed offsets.",
        {"group": "which", **_WHY},
    ),
    "stream.dismissed": EventKind(
        Severity.WARNING,
        "task {slot} of group {group} of stream {subject} is replaced",
        "A stream task failed, or did not answer in time.",
        {"group": "its group", "slot": "its number in the group", **_WHY},
    ),
    "stream.waits": EventKind(
        Severity.WARNING,
        "some of stream {subject} waits until its offsets are set",
        "A partition's next records were deleted, or the source was made again, and the stream's `vanished` is `halt`.",
        _WHY,
    ),
    "stream.dropped": EventKind(
        Severity.WARNING,
        "group {group} of stream {subject} has published, and dropped {count} records",
        "Records that were late, early, without a value or deleted, or on which the function failed, made no rows.",
        {"group": "which", "count": "how many records", **_WHY},
    ),
    "stream.lags": EventKind(
        Severity.WARNING,
        "stream {subject} has lagged for {seconds} s",
        "The output of a stream has been more than `supervisor.lag_limit` records behind its source for "
        "`supervisor.lag_after`. Reported once until it is over.",
        _WAITED | _WHY,
    ),
    "stream.lag_over": EventKind(
        Severity.INFO,
        "stream {subject} no longer lags, after {seconds} s",
        "A stream reported by `stream.lags` has caught up, or was removed.",
        _WAITED,
    ),
    "stream.scaled": EventKind(
        Severity.INFO,
        "stream {subject} has {tasks} task groups instead of {before}",
        "The lag of a stream was high, or low again, for a while, and its declaration allows it to be scaled.",
        {"tasks": "the new number of groups", "before": "the number before", "lag": "records that it is behind"},
    ),
    "stream.moved": EventKind(
        Severity.WARNING,
        "the offsets of stream {subject} were set",
        "A user requested it, or the source was made again and the stream's `vanished` says where to continue.",
        {
            "policy": "the stream's `vanished`, if that was the reason",
            "by": "the user who requested it, if any",
            **_WHY,
        },
    ),
    "sink.down": EventKind(
        Severity.WARNING,
        "sink {subject} takes no messages; they are kept on disk",
        "A relay cannot publish to a sink.",
        _WHY,
    ),
    "sink.up": EventKind(Severity.INFO, "sink {subject} takes messages again", "A relay can publish again.", {}),
    "sink.rejected": EventKind(
        Severity.ERROR,
        "sink {subject} rejects messages, which are dropped and counted",
        "Messages can never be delivered for this reason. Reported once for each reason while a relay runs.",
        _WHY,
    ),
    "service.listening": EventKind(
        Severity.INFO, "service {subject} listens", "A service listens at its addresses.", {"at": "the addresses"}
    ),
    "service.refused": EventKind(
        Severity.ERROR,
        "service {subject} cannot listen; it keeps retrying",
        "An address of a service is taken, or does not belong to this machine.",
        _WHY,
    ),
    "service.resized": EventKind(
        Severity.INFO,
        "the group {subject} has another size",
        "A user set the number of workers in a group of a service, or a reload reset it.",
        {"before": "the number before", "after": "the number now; none: as the app declares"},
    ),
    "service.cleared": EventKind(
        Severity.WARNING,
        "requests that waited for service {subject} were dropped",
        "A user cleared the queues of a service; the clients got error answers.",
        {"dropped": "how many requests"},
    ),
    "hook.failed": EventKind(
        Severity.ERROR,
        "hook {subject} failed, and its event is dropped",
        "All attempts to deliver an event to a hook failed.",
        {"event": "the id of the event", "attempts": "the number of attempts", **_WHY},
    ),
    "hook.dropped": EventKind(
        Severity.WARNING,
        "events for hook {subject} were dropped",
        "More events waited for a hook than it can deliver in ten minutes.",
        {"count": "how many"},
    ),
    "hook.test": EventKind(
        Severity.INFO, "hook {subject} is tested", "A user tests a hook; only that hook gets it.", {}
    ),
    "job.missed": EventKind(
        Severity.WARNING,
        "due times of job {subject} were missed",
        "No node was available when a job was due, or its runs waited too long; its `misfire` decides what follows.",
        {"count": "how many due times", "first": "the first of them", "last": "the last of them"},
    ),
    "job.refused": EventKind(
        Severity.WARNING,
        "job {subject} is refused",
        "An app or a file declares a job that conflicts with existing jobs; the existing ones stay.",
        _WHY,
    ),
    "job.removed": EventKind(
        Severity.INFO,
        "job {subject} is removed",
        "A job is removed because no node's app declares it any more.",
        {"app": "the app that declared it"},
    ),
    "run.failed": EventKind(
        Severity.WARNING,
        "run {subject} failed",
        "A run failed or timed out, and is not retried.",
        {"state": "failed or timed out", "attempt": "which attempt was the last", "node": "where", **_WHY},
    ),
    "run.waits": EventKind(
        Severity.WARNING,
        "run {subject} has had no node for {seconds} s",
        "A run that is due has waited for a node for `supervisor.run_after`. Reported once until it is over, for at "
        "most 50 runs at a time.",
        _WAITED | _WHY,
    ),
    "run.wait_over": EventKind(
        Severity.INFO,
        "run {subject} no longer waits, after {seconds} s",
        "A run reported by `run.waits` has a node, waits for another reason, or was deleted.",
        _WAITED,
    ),
    "run.lost": EventKind(
        Severity.WARNING,
        "run {subject} was lost with its node",
        "A node's session ended while a run was bound to it; the job's options decide whether it is retried.",
        {"attempt": "which attempt", "lost_on": "the node that was lost", "again": "is it retried?"},
    ),
    "run.late": EventKind(
        Severity.WARNING,
        "an outcome of run {subject} came too late",
        "A node reported the outcome of an attempt that was given up; it is kept with the run, and changes nothing.",
        {"attempt": "which attempt", "state": "its outcome", "final": "the state of the run"},
    ),
    "run.trimmed": EventKind(
        Severity.WARNING,
        "output of the oldest runs, up to {subject}, was dropped to make room",
        "The output of all runs together was more than `runs.kept_bytes`; the runs themselves are still there.",
        {"runs": "how many runs lost their output", "bytes": "how many bytes that was", "most": "the limit in bytes"},
    ),
    "events.dropped": EventKind(
        Severity.WARNING,
        "events of node {subject} were lost",
        "There were more events than the store accepted.",
        {"count": "how many", **_WHY},
    ),
}
"""Every kind of event. The word before the dot says what its subject is."""


def make(
    kind: str, subject: str, fields: Mapping[str, Value], *, node: NodeId, at: datetime, number: int, text: str = ""
) -> Event:
    """An event; Invalid for an unknown kind. `number` must not repeat within a millisecond of this node."""
    known = KINDS.get(kind)
    if known is None:
        raise Invalid(f'event kind "{kind}" is unknown; add it to KINDS in model/event.py')
    said = text or _sentence(known, subject, fields)
    return Event(
        id=identify(at, number, node),
        at=at,
        kind=kind,
        subject=_cut(subject),
        node=node,
        severity=known.severity,
        text=_cut(said),
        fields={name: _cut(value) if isinstance(value, str) else value for name, value in fields.items()},
    )


def identify(at: datetime, number: int, node: NodeId) -> str:
    """An id: time, number, node."""
    return f"{moment(at)}-{number % 1_000_000:06d}-{node}"


def moment(at: datetime) -> str:
    """How ids of this time begin; text order is time order."""
    return f"{max(0, (at - _EPOCH) // _MILLISECOND):0{_DIGITS}d}"


def time_of(event_id: str) -> datetime | None:
    """The time an id begins with, or None if it is no event's."""
    digits = event_id[:_DIGITS]
    if len(digits) < _DIGITS or not digits.isascii() or not digits.isdigit():
        return None
    try:
        return _EPOCH + int(digits) * _MILLISECOND
    except OverflowError:
        return None


def matches(event: Event, kinds: Iterable[str] = (), node: str | None = None) -> bool:
    """Is the event of one of these kinds (`worker.*`), and of this node? No kinds: of any."""
    patterns = tuple(kinds)
    is_kind = not patterns or any(fnmatchcase(event.kind, pattern) for pattern in patterns)
    return is_kind and (node is None or event.node == node)


def _sentence(kind: EventKind, subject: str, fields: Mapping[str, Value]) -> str:
    # In one pass, and not by str.format: a subject may hold braces.
    given = {**fields, "subject": subject}
    said = _FIELD.sub(lambda found: str(given.get(found[1], found[0])), kind.says)
    why = fields.get("why")
    return f"{said}: {why}" if why else said


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
