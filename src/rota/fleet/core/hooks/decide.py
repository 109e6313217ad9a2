"""Hooks: which events go to which of them, when, and how often they are tried.

`taken` turns events into deliveries; `claimed` and `failed` give the next state of one. The pace of a hook is a leaky
bucket that holds one minute's worth: that many may come at once, the others wait. A hook ten minutes behind gets no
more.

Times are those of the store's clock. `fleet.hooks.deliver` carries it out.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

import msgspec

from rota.fleet.core.hooks.record import Delivery, Hook
from rota.kit.record import replace
from rota.model.event import Event
from rota.model.ids import NodeId

MINUTE = timedelta(minutes=1)
LONGEST_QUEUE = timedelta(minutes=10)
MARGIN = timedelta(seconds=10)
"""How long after its timeout an attempt counts as lost: by then its node is dead or cut off."""

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=2), timedelta(minutes=5)
FURTHEST = LONGEST_QUEUE + 2 * MINUTE
"""Nothing is ever put off for longer; a time beyond that is from before the store's clock was set back."""

OWN = "hook."
"""Events about hooks go to none: one that fails would feed itself."""


class Taken(msgspec.Struct, frozen=True):
    """The deliveries that some events cause."""

    deliveries: list[Delivery] = msgspec.field(default_factory=list)
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """By hook, how many events were too many."""

    paces: dict[str, datetime] = msgspec.field(default_factory=dict)


def wants(hook: Hook, event: Event) -> bool:
    """Does a hook take such an event?"""
    return (
        hook.enabled
        and not event.kind.startswith(OWN)
        and any(fnmatchcase(event.kind, pattern) for pattern in hook.events)
    )


def taken(hooks: Iterable[Hook], events: Iterable[Event], paces: Mapping[str, datetime], now: datetime) -> Taken:
    """What is to be delivered of these events, and the paces after that; those of hooks that are gone are dropped."""
    known = list(hooks)
    found = Taken(paces={hook.name: paces[hook.name] for hook in known if hook.name in paces})
    for event in events:
        for hook in known:
            if wants(hook, event):
                _take(found, hook, event, now)
    return found


def _take(found: Taken, hook: Hook, event: Event, now: datetime) -> None:
    step = MINUTE / hook.per_minute
    pace = max(found.paces.get(hook.name, now), now)
    if pace - now > FURTHEST:
        pace = now
    due = max(now, pace - MINUTE + step)
    if due - now > LONGEST_QUEUE:
        found.dropped[hook.name] = found.dropped.get(hook.name, 0) + 1
        return
    found.paces[hook.name] = pace + step
    found.deliveries.append(Delivery(hook=hook.name, event=event, due=due))


def wait(delivery: Delivery, now: datetime) -> timedelta:
    """How long until a delivery is to be tried; zero if it is due."""
    ahead = delivery.due - now
    return ahead if timedelta() < ahead <= FURTHEST else timedelta()


def claimed(delivery: Delivery, hook: Hook, node: NodeId, now: datetime) -> Delivery:
    """The delivery while `node` tries it. No other node takes it before the attempt must be over."""
    return replace(delivery, attempts=delivery.attempts + 1, by=node, due=now + hook.timeout + MARGIN)


def failed(delivery: Delivery, hook: Hook, now: datetime) -> Delivery | None:
    """The delivery after a try that failed; None if that was the last."""
    if delivery.attempts > hook.retries:
        return None
    pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(delivery.attempts - 1, 20))
    return replace(delivery, due=now + pause)
