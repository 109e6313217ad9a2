"""Peers: which nodes are online, by the nodes' checks of each other.

An observer checks every other node periodically. `heard` judges one round: which nodes to strike, or why none. A
`StrikeLedger` holds the observer's strikes, which it shows the others in the store. `verdicts` judges from all strikes,
and `health` says when a node goes offline or comes back.

The rules, each against a way in which three plain strikes go wrong (seed 004):

- Strikes are counted by moment, not by observer: a hundred observers that see one blip count it once.
- More than half of the observers must see it, at each of three moments. Where two nodes cannot reach each other and all
others reach both, both stay online; each of the two leaves the other out by itself. - The strikes of a node that all
others strike are ignored: it is likelier to be the one that is cut off. - A node that often falls comes back late, and
one that came back gets its full share of work only after a while.

All this decides only which nodes are sent work. Ownership ends with the lease and with nothing else.

Times are those of the store's clock and arrive as arguments. `fleet.members.peers` checks, `fleet.members.health`
writes down.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from rota.kit.record import replace
from rota.model.ids import NodeId, SessionId
from rota.model.peers import NodeHealth, Standing, Strikes

ENOUGH = 3
"""Strikes that make a node offline."""

SAME_MOMENT = 0.8
"""Strikes closer than this part of the time between checks are one; less than 1, because checks are jittered."""

LATE = timedelta(seconds=1)
"""How late an observer's own loop may be before its round strikes no node."""

MEMORY = timedelta(hours=1)
"""How long a fall is held against a node."""

LONGEST_CALM = timedelta(minutes=10)
FORGOTTEN = timedelta(days=1)
"""How long a node that left is remembered."""

LEAST = 0.1
"""The share of work that a node gets the moment it is back."""

GONE = "it is not in the fleet any more"
BACK = "it answers again"

Members: TypeAlias = Mapping[NodeId, SessionId]
"""The nodes of the fleet that can be checked, each with its present session."""


# What one observer does


class Heard(msgspec.Struct, frozen=True):
    """What a round of checks means."""

    struck: Mapping[NodeId, str]
    """The nodes to strike, and the error of each check."""

    answered: frozenset[NodeId]


class Withheld(msgspec.Struct, frozen=True):
    """Why a round strikes no node."""

    why: str
    is_cut_off: bool = False
    """Is it because no node was reached?"""


def heard(answers: Mapping[NodeId, str | None], lateness: timedelta) -> Heard | Withheld:
    """What a round says: each node's trouble, or None if it answered; and how late the observer's own loop was.

    An observer that reaches none of several others is likelier to be cut off than all of them. With one other there is
    nothing to compare; `verdicts` decides that case.
    """
    if lateness > LATE:
        return Withheld(f"this node's own loop was {lateness.total_seconds():.1f} s late")
    failed = {node: why for node, why in answers.items() if why is not None}
    if len(failed) == len(answers) > 1:
        return Withheld(f"none of {len(answers)} nodes was reached, so this one is likely to be cut off", True)
    return Heard(failed, frozenset(answers.keys() - failed.keys()))


class StrikeLedger:
    """The strikes that one observer holds against others."""

    def __init__(self, observer: NodeId) -> None:
        self._observer = observer
        self.strikes: dict[NodeId, Strikes] = {}

    def take(self, round: Heard, members: Members, now: datetime) -> None:
        """Take a round in: strikes grow, and an answer wipes them out."""
        for node in round.answered:
            self.strikes.pop(node, None)
        for node, why in round.struck.items():
            if node in members:
                self._strike(node, members[node], why, now)
        self.forget_all_but(members)

    def forget_all_but(self, members: Members) -> None:
        """Drop strikes against nodes that left, or have a new session."""
        present = members.items()
        self.strikes = {node: held for node, held in self.strikes.items() if (node, held.session) in present}

    def _strike(self, node: NodeId, session: SessionId, why: str, now: datetime) -> None:
        held = self.strikes.get(node)
        if held is None or held.session != session:
            held = Strikes(node=node, session=session, observer=self._observer, at=[], why=why)
        if len(held.at) < ENOUGH:  # more would say nothing new, and every change is a write
            self.strikes[node] = replace(held, at=[*held.at, now], why=why)


# What the fleet makes of it


class PeerVerdict(msgspec.Struct, frozen=True):
    """How a node stands, and why."""

    standing: Standing
    why: str


def verdicts(members: Members, strikes: Iterable[Strikes], every: timedelta) -> dict[NodeId, PeerVerdict]:
    """The verdict on each member; nodes check each other every `check_every`."""
    against: dict[NodeId, dict[NodeId, Strikes]] = {node: {} for node in members}
    for each in strikes:
        if members.get(each.node) == each.session and each.observer in members and each.at:
            against[each.node][each.observer] = each
    shunned = {node for node, held in against.items() if 0 < len(held) == len(members) - 1}
    return {node: _verdict(against[node], members.keys() - {node} - shunned, every) for node in members}


def _verdict(held: Mapping[NodeId, Strikes], observers: Collection[NodeId], every: timedelta) -> PeerVerdict:
    if not held:
        return PeerVerdict(Standing.ONLINE, "everybody reaches it")
    why = _complaint(", ".join(sorted(held)), max(held.values(), key=lambda each: each.at[-1]).why)
    counted = [each for observer, each in held.items() if observer in observers]
    most = len(observers) // 2 + 1
    if len(counted) < most:
        return PeerVerdict(Standing.SUSPECT, why)
    # An observer that strikes has had no answer since its first strike. What one saw before most did is between those
    # two.
    since = sorted(each.at[0] for each in counted)[most - 1]
    times = moments((at for each in counted for at in each.at if at >= since), every)
    return PeerVerdict(Standing.OFFLINE if times >= ENOUGH else Standing.SUSPECT, why)


def _complaint(who: str, why: str) -> str:
    return f"{who} did not reach it: {why}"


def moments(times: Iterable[datetime], every: timedelta) -> int:
    """At how many distinct moments something was seen, as if by one observer with a fixed interval."""
    count, last = 0, None
    for at in sorted(times):
        if last is None or at - last >= SAME_MOMENT * every:
            count, last = count + 1, at
    return count


def health(
    before: NodeHealth | None, node: NodeId, verdict: PeerVerdict | None, now: datetime, every: timedelta
) -> NodeHealth | None:
    """A node's health from now on; None if that is what it was. Without a verdict, it is no member."""
    is_down = verdict is None or verdict.standing is Standing.OFFLINE
    why = verdict.why if verdict else GONE
    if before is None:
        return None if verdict is None else NodeHealth(node=node, is_online=not is_down, since=now, why=why)
    falls = _lately(before.falls, now)
    if before.is_online and is_down:
        return NodeHealth(node=node, is_online=False, since=now, why=why, falls=[*falls, now])
    is_up = verdict is not None and verdict.standing is Standing.ONLINE
    if not before.is_online and is_up and _elapsed(before.since, now) >= calm(len(falls), every):
        return NodeHealth(node=node, is_online=True, since=now, why=BACK, falls=falls)
    return None


def shown(health: NodeHealth | None, strikes: Collection[Strikes]) -> PeerVerdict:
    """The verdict on a node to show: by its health record, and by the present strikes of others."""
    if health is not None and not health.is_online:
        return PeerVerdict(Standing.OFFLINE, health.why)
    if not strikes:
        return PeerVerdict(Standing.ONLINE, "")
    last = max(strikes, key=lambda each: each.at)
    who = ", ".join(sorted(each.observer for each in strikes))
    return PeerVerdict(Standing.SUSPECT, _complaint(who, last.why))


def is_forgotten(health: NodeHealth, is_member: bool, now: datetime) -> bool:
    """Has a node been away for so long that its record can be deleted?"""
    return not is_member and not health.is_online and now - health.since >= FORGOTTEN


def calm(falls: int, every: timedelta) -> timedelta:
    """How long a node stays offline at least: not at all after its first fall, then longer each time."""
    return timedelta() if falls < 2 else min(LONGEST_CALM, every * 2.0 ** min(falls - 1, 20))


def weight(health: NodeHealth | None, now: datetime, ramp: timedelta) -> float:
    """The part of its share of work that a node should get, from 0 to 1.

    One that came back begins with a little and has all of it after `ramp`; twice as late for each fall before.
    """
    if health is None:
        return 1.0
    if not health.is_online:
        return 0.0
    falls = len(_lately(health.falls, now))
    if not falls or not ramp:
        return 1.0
    grown: float = _elapsed(health.since, now) / (ramp * 2.0 ** min(falls - 1, 5))
    return min(1.0, max(LEAST, grown))


def _lately(falls: Iterable[datetime], now: datetime) -> list[datetime]:
    return [at for at in falls if _elapsed(at, now) < MEMORY]


def _elapsed(since: datetime, now: datetime) -> timedelta:
    """How long ago something was; very long if it lies in the future, as the clock was then set back."""
    return now - since if since <= now else timedelta.max
