"""Start messages: nodes are notified of runs that were bound to them.

A node that gets a start message begins at once; without one it finds the run by itself a little later. So the messages
are for speed, and their outcome decides one thing only: whether the run may be given to another node.

- Refused: the run was not begun; it goes back to pending.
- Out of reach, and certainly nothing happened: likewise, and the node is left alone for a while.
- No answer: it may have begun. It stays where it is for as long as that node's session lasts, and the node is asked
  again, because a repeated start is the same start. A later failure proves nothing about the first message.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias

import msgspec

from rota.jobs.core.records import RunOrder
from rota.jobs.fleet.view import Live
from rota.kit.bell import Bell
from rota.kit.time.clock import Clock
from rota.link.port import NodeLink
from rota.link.records import AttemptId, AttemptRefused, StartAttempt
from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.model.ids import Instant, NodeId, Revision

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds before a start message without an answer is repeated."""

TIMEOUT = timedelta(seconds=2)
TOGETHER = 50
"""Starts in one message at most."""

SHUNNED, LOCKED_OUT = 1.0, 60.0
"""Seconds in which a node gets nothing: after it refused a run or was out of reach, and after it denied access."""

LinkTo: TypeAlias = Callable[[NodeId], NodeLink | None]
Strike: TypeAlias = Callable[[NodeId, str], None]


class Bound(msgspec.Struct, frozen=True):
    """A run that this node has bound, and the order for its new owner."""

    live: Live
    order: RunOrder


class Notifier:
    """Sends start messages, and collects the refusals."""

    def __init__(self, link_to: LinkTo, is_bound: Callable[[Bound], bool], clock: Clock, strike: Strike) -> None:
        self._link_to, self._is_bound, self._clock, self._strike = link_to, is_bound, clock, strike
        self._shunned: dict[NodeId, tuple[Instant, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused: list[tuple[Live, str]] = []
        """Runs to take back, and why; the scheduler empties the list."""

        self.news = Bell()

    def notify(self, bound: Iterable[Bound]) -> None:
        """Send the starts to their nodes; returns at once."""
        by_node: defaultdict[NodeId, list[Bound]] = defaultdict(list)
        for each in bound:
            assert each.live.run.node is not None
            by_node[each.live.run.node].append(each)
        for node, theirs in by_node.items():
            if (link := self._link_to(node)) is not None:
                for start in range(0, len(theirs), TOGETHER):
                    self._begin(self._ask(link, node, theirs[start : start + TOGETHER]))

    def barred(self, node: NodeId) -> str:
        """Why a node gets nothing for a while; empty if it may get runs."""
        until, why = self._shunned.get(node, (Instant(0.0), ""))
        return why if self._clock.monotonic() < until else ""

    def take_back(self, node: NodeId, bound: Bound, why: str, shunned: float = SHUNNED) -> None:
        """A node certainly did not begin a run: it goes to another node, and this one gets nothing for a while."""
        self._shun(node, why, shunned)
        self.refused.append((bound.live, why))
        self.news.ring()

    def _shun(self, node: NodeId, why: str, seconds: float) -> None:
        self._shunned[node] = Instant(self._clock.monotonic() + seconds), why

    async def close(self) -> None:
        """Stop sending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, link: NodeLink, node: NodeId, starts: Sequence[Bound]) -> None:
        is_certain = True
        while starts := [bound for bound in starts if self._is_bound(bound)]:
            try:
                answers = await link.dispatch_many([_start(bound.order) for bound in starts], timeout=TIMEOUT)
            except (Denied, Invalid) as error:
                log.warning("starts cannot be sent to a node", extra={"node": node, "why": str(error)})
                if is_certain:
                    self._take_all_back(node, starts, str(error), LOCKED_OUT)
                    return
                self._shun(node, str(error), LOCKED_OUT)
            except Unavailable as error:
                if is_certain:
                    self._take_all_back(node, starts, str(error), SHUNNED)
                    self._strike(node, str(error))
                    return
            except RotaError as error:  # the outcome is unknown, or another node answered: the run may have begun
                log.debug("no answer to starts", extra={"runs": len(starts), "node": node, "why": str(error)})
                is_certain = False
            else:
                for bound, answer in zip(starts, answers, strict=True):
                    if isinstance(answer, AttemptRefused):
                        self.take_back(node, bound, f"node {node} refused it: {answer.why}")
                return
            await asyncio.sleep(AGAIN)

    def _take_all_back(self, node: NodeId, starts: Sequence[Bound], why: str, shunned: float) -> None:
        for bound in starts:
            self.take_back(node, bound, f"starts cannot be sent to node {node}: {why}", shunned)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name="start messages")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start(order: RunOrder) -> StartAttempt:
    return StartAttempt(
        attempt=AttemptId(order.run, order.attempt),
        epoch=Revision(order.epoch),
        payload=msgspec.json.encode(order),
    )


def order_of(start: StartAttempt) -> RunOrder:
    """The order in a start message; Invalid if it cannot be decoded."""
    try:
        return msgspec.json.decode(start.payload, type=RunOrder)
    except msgspec.MsgspecError as error:
        raise Invalid(f"the start of {start.attempt} cannot be read ({error}); is that node's Rota newer?") from None
