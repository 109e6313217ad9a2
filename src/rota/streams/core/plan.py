"""The plan for all groups of a stream. Pure.

`plan` is asked whenever something changed, and each second. It gives up what is not on the chain or does not come to an
end, forgets what is published, lets every group go its way, and makes groups for partitions that nobody reads.

A group's successor stands by before the group ends: its tasks are up and connected, so that the pause between the two
is only the agreement.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha1

import msgspec

from rota.kit.record import replace
from rota.streams.core import chain
from rota.streams.core.group import GroupMember, Tuning, Wish, advance, begin, is_overdue, oldest_start, reading_since
from rota.streams.core.group_phases import GroupEvent, enter, leave
from rota.streams.core.manifest import Offsets
from rota.streams.core.records import Group, Phase, TaskState

IDENTITY = 15
"""Hexadecimal digits of a group's id."""

MOST_PARTITIONS = 90
"""Of a group: a publish moves the offsets of all of them in one commit, and a commit takes a hundred writes."""
MADE_ANEW = "the source was made anew, and what was read may be of either"


class Aims(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream is to be."""

    stream: str
    spec: str
    """Digest of its declaration: groups that use another one are ended, in order."""

    tasks: int = 1
    partitions: Collection[int] = ()
    """The partitions the source has."""

    tuning: Tuning = msgspec.field(default_factory=Tuning)
    lead: timedelta = timedelta(seconds=10)
    """How long before a group ends its successor is started."""

    at_a_time: int | None = None
    """How many groups may publish at the same time before others are left to read on; None: all."""

    late: timedelta | None = None
    early: timedelta | None = None
    """Records older than their group by `late`, or newer than its end and than now by `early`, are not taken."""

    late_start: datetime | None = None
    """Records from before this are not taken."""

    identity: str | None = None
    """The source that is there; groups of another one are given up."""

    replaced: frozenset[int] = frozenset()
    """Partitions in whose place there are others: groups that read them are given up."""

    is_made_anew: bool = False
    """The offsets belong to the previous source: all groups are given up, and no new ones are made."""

    is_stopping: bool = False
    """Suspended or terminated: what reads ends and publishes, and nothing new is made."""

    is_starting: bool = False
    """Its leader has just begun: what there is goes on, and nothing new is made."""

    is_idle: bool = False
    """No records arrive: groups that read go on, and no new ones are made."""

    upto: Offsets = msgspec.field(default_factory=dict)
    """Partition → where the stream ends, if it ends somewhere."""

    hand_off: frozenset[int] = frozenset()
    """Numbers of the groups that operators want to end now."""

    generation: int = 0
    """The highest generation any group ever had: each new group gets a greater one."""


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The groups as they should be, and what happened to those that are gone."""

    groups: dict[str, Group]
    published: tuple[str, ...] = ()
    given_up: dict[str, str] = msgspec.field(default_factory=dict)
    """Group → why."""


def plan(
    aims: Aims,
    groups: Collection[Group],
    members: Mapping[str, Sequence[GroupMember]],
    committed: Offsets,
    now: datetime,
) -> GroupPlan:
    """The groups as they should be now. `members`: group → its tasks. Every partition has a committed offset."""
    published = tuple(leave(group, GroupEvent.PUBLISHED) for group in groups if chain.is_published(group, committed))
    left = {group.id: group for group in groups if group.id not in published}
    reasons = _given_up(aims, list(left.values()), committed, now)
    given_up = {leave(left[id], GroupEvent.GIVEN_UP): why for id, why in reasons.items()}
    left = {id: _given_time(group, groups, published, now) for id, group in left.items() if id not in given_up}
    left = _advanced(aims, left, members, now)
    left = _begun(left, committed, now)
    left = _with_new_ones(aims, left, members, committed, now)
    return GroupPlan(groups=left, published=published, given_up=given_up)


def numbered(partitions: Collection[int], tasks: int) -> dict[int, tuple[int, ...]]:
    """Which group reads which partitions; groups without any are left out, and those with too many are divided."""
    shares: dict[int, list[int]] = {}
    for partition in sorted(partitions):
        shares.setdefault(partition % tasks, []).append(partition)
    found = {
        number + tasks * part: tuple(each[part * MOST_PARTITIONS : (part + 1) * MOST_PARTITIONS])
        for number, each in shares.items()
        for part in range(-(-len(each) // MOST_PARTITIONS))
    }
    return dict(sorted(found.items()))


def _given_up(aims: Aims, groups: Sequence[Group], committed: Offsets, now: datetime) -> dict[str, str]:
    if aims.is_made_anew:
        return {group.id: MADE_ANEW for group in groups}
    others = [group for group in groups if _is_of_another_source(aims, group)]
    found = {group.id: MADE_ANEW for group in others}
    found |= chain.broken([group for group in groups if group.id not in found], committed)
    for group in groups:
        if group.id in found or not is_overdue(group, _patience(aims, group), now):
            continue
        if not any(group in chain.followers(each, groups) for each in groups):  # otherwise it waits for its predecessor
            found[group.id] = "it did not publish in time, and made no progress"
            after = chain.followers(group, groups)
            found |= {each.id: f"it starts where group {group.id} ends, which is given up" for each in after}
    return found


def _is_of_another_source(aims: Aims, group: Group) -> bool:
    is_other = None not in (aims.identity, group.identity) and aims.identity != group.identity
    return is_other or not aims.replaced.isdisjoint(group.partitions)


def _patience(aims: Aims, group: Group) -> timedelta:
    """How long a group may publish without progress; for one of an older declaration, perhaps no node can run it any
    more."""
    return aims.tuning.completion_timeout if group.spec == aims.spec else aims.tuning.status_timeout


def _given_time(group: Group, groups: Collection[Group], published: Collection[str], now: datetime) -> Group:
    """A group whose predecessor has just published: its own time counts from now on."""
    waited = any(each.id in published and group in chain.followers(each, groups) for each in groups)
    return replace(group, progressed=now) if waited and group.phase is Phase.PUBLISHING else group


def _advanced(
    aims: Aims, groups: Mapping[str, Group], members: Mapping[str, Sequence[GroupMember]], now: datetime
) -> dict[str, Group]:
    """Every group one step further; those that have read longest end first, at most `most_publishing` at a time."""
    wanted = numbered(aims.partitions, aims.tasks)
    busy = sum(group.phase is Phase.PUBLISHING or group.is_final for group in groups.values())
    room = len(wanted or groups) - busy if aims.at_a_time is None else aims.at_a_time - busy
    found = dict(groups)
    for group in sorted(groups.values(), key=lambda each: (oldest_start(members.get(each.id, ())) or now, each.id)):
        present = members.get(group.id, ())
        wish = _wish(aims, group, groups, members, wanted, now)
        if wish and room <= 0 and not aims.is_stopping:
            wish = None
        after = advance(group, present, aims.tuning, now, wish=wish)
        room -= after.is_final and not group.is_final
        found[group.id] = after
    return found


def _wish(
    aims: Aims,
    group: Group,
    groups: Mapping[str, Group],
    members: Mapping[str, Sequence[GroupMember]],
    wanted: Mapping[int, tuple[int, ...]],
    now: datetime,
) -> Wish | None:
    """Why a group should end for good."""
    if group.phase is not Phase.READING:
        return None
    started = reading_since(group, members.get(group.id, ()), now)
    is_old = started is not None and now - started >= aims.tuning.duration
    reasons = {
        "the stream is stopping": aims.is_stopping,
        "the stream's declaration changed": group.spec != aims.spec,
        "its partitions changed": wanted.get(group.number) != group.partitions,
        "a user requested it": group.number in aims.hand_off,
        "it has read all that it was to read": _is_at_its_end(group, members.get(group.id, ())),
        "it has read for long enough": is_old and _has_heir(aims, group, groups, members, now),
    }
    return next((Wish(why=why, is_final=True) for why, is_so in reasons.items() if is_so), None)


def _is_at_its_end(group: Group, members: Sequence[GroupMember]) -> bool:
    """Has one of its tasks come to where the stream ends?"""
    return any(
        chain.is_complete(each.status.offsets, group.upto) for each in members if each.status and each.status.offsets
    )


def _has_heir(
    aims: Aims, group: Group, groups: Mapping[str, Group], members: Mapping[str, Sequence[GroupMember]], now: datetime
) -> bool:
    """Is the successor ready, or was it given time enough?"""
    heirs = [each for each in groups.values() if group.id in each.after]
    if aims.is_idle:
        return True
    return any(
        now - heir.created >= aims.lead
        or any(member.status and member.status.state is TaskState.STANDBY for member in members.get(heir.id, ()))
        for heir in heirs
    )


def _begun(groups: Mapping[str, Group], committed: Offsets, now: datetime) -> dict[str, Group]:
    """Those that stand by begin when the groups before them have ended."""
    found = dict(groups)
    for group in chain.in_order(groups.values()):
        if group.phase is Phase.STANDBY:
            others = [each for each in found.values() if each.generation < group.generation]
            starts = chain.starts(group.partitions, others, committed)
            if starts is not None and chain.is_complete(starts, group.upto):
                del found[leave(group, GroupEvent.UNWANTED)]
            elif starts is not None:
                found[group.id] = begin(group, starts, now)
    return found


def _with_new_ones(
    aims: Aims,
    groups: Mapping[str, Group],
    members: Mapping[str, Sequence[GroupMember]],
    committed: Offsets,
    now: datetime,
) -> dict[str, Group]:
    """A group for partitions that nobody reads, and one that stands by for each that soon ends."""
    if aims.is_starting and not aims.is_stopping:
        return dict(groups)
    wanted = {} if aims.is_stopping or aims.is_idle or aims.is_made_anew else numbered(aims.partitions, aims.tasks)
    found = dict(groups)
    for group in groups.values():
        is_wanted = (wanted.get(group.number), aims.spec) == (group.partitions, group.spec)
        if group.phase is Phase.STANDBY and not is_wanted:
            del found[leave(group, GroupEvent.UNWANTED)]
    for number, partitions in wanted.items():
        held = [
            each
            for each in found.values()
            if each.phase is not Phase.PUBLISHING and set(each.partitions) & set(partitions)
        ]
        if any(each.phase is Phase.STANDBY for each in held):
            continue
        generation = 1 + max((aims.generation, *(each.generation for each in found.values())))
        if not held:
            starts = chain.starts(partitions, found.values(), committed)
            if starts is not None and not chain.is_complete(starts, aims.upto):
                fresh = _made(aims, number, generation, partitions, (), starts, now)
                found[fresh.id] = fresh
        elif _is_ending(aims, held, members, now):
            fresh = _made(aims, number, generation, partitions, tuple(sorted(each.id for each in held)), {}, now)
            found[fresh.id] = fresh
    return found


def _is_ending(aims: Aims, held: Sequence[Group], members: Mapping[str, Sequence[GroupMember]], now: datetime) -> bool:
    """Do these groups end soon, so that their successor should be started?"""
    ending = timedelta() if aims.tuning.duration < aims.lead else aims.tuning.duration - aims.lead
    for group in held:
        started = reading_since(group, members.get(group.id, ()), now)
        if group.is_final or (started is not None and now - started >= ending):
            return True
    return False


def _made(
    aims: Aims,
    number: int,
    generation: int,
    partitions: tuple[int, ...],
    after: tuple[str, ...],
    starts: Mapping[int, int],
    now: datetime,
) -> Group:
    earliest = aims.late_start if aims.late is None else now - aims.late
    latest = None if aims.early is None else now + aims.tuning.duration + aims.early
    upto = {partition: aims.upto[partition] for partition in partitions if partition in aims.upto}
    text = repr(
        (aims.stream, aims.spec, number, generation, partitions, after, sorted(starts.items()), earliest, latest, upto)
    )
    fresh = Group(
        stream=aims.stream,
        id=sha1(text.encode(), usedforsecurity=False).hexdigest()[:IDENTITY],
        number=number,
        generation=generation,
        partitions=partitions,
        after=after,
        starts=dict(starts),
        since=now,
        created=now,
        earliest=earliest,
        latest=latest,
        early=aims.early,
        upto=upto,
        spec=aims.spec,
        identity=aims.identity,
    )
    return enter(fresh)
