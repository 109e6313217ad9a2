"""Telling nodes of runs that were bound to them.

A node that is told begins at once; one that is not told finds the run by itself a little later. So telling is for
speed, and what comes of it decides one thing only: whether the run may be given to somebody else.

- Refused: it was not begun; it goes back.
- Out of reach, and certainly nothing happened: likewise, and the node is left alone for a while.
- No answer: it may have begun. It stays where it is for as long as that node's session lasts, and the node is asked
  again, for a start is the same start however often it is asked for. Being out of reach or locked out later proves
  nothing about the first time.
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
"""Seconds before a node is asked again that gave no answer."""

TIMEOUT = timedelta(seconds=2)
TOGETHER = 50
"""Starts that travel together at most."""

SHUNNED, LOCKED_OUT = 1.0, 60.0
"""Seconds in which a node gets nothing that refused a run or could not be told, and one that does not let us in."""

LinkTo: TypeAlias = Callable[[NodeId], NodeLink | None]
Strike: TypeAlias = Callable[[NodeId, str], None]


class Bound(msgspec.Struct, frozen=True):
    """A run that this node has bound, and what its new owner is to be told."""

    live: Live
    order: RunOrder


class Telling:
    """Tells, and collects what comes back."""

    def __init__(self, link_to: LinkTo, is_bound: Callable[[Bound], bool], clock: Clock, strike: Strike) -> None:
        self._link_to, self._is_bound, self._clock, self._strike = link_to, is_bound, clock, strike
        self._shunned: dict[NodeId, tuple[Instant, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused: list[tuple[Live, str]] = []
        """Runs to be taken back, and why; whoever takes them empties it."""

        self.news = Bell()

    def tell(self, bound: Iterable[Bound]) -> None:
        """Tell the nodes; returns at once."""
        by_node: defaultdict[NodeId, list[Bound]] = defaultdict(list)
        for each in bound:
            assert each.live.run.node is not None
            by_node[each.live.run.node].append(each)
        for node, theirs in by_node.items():
            if (link := self._link_to(node)) is not None:
                for start in range(0, len(theirs), TOGETHER):
                    self._begin(self._ask(link, node, theirs[start : start + TOGETHER]))

    def barred(self, node: NodeId) -> str:
        """Why a node gets nothing for a while, if so."""
        until, why = self._shunned.get(node, (Instant(0.0), ""))
        return why if self._clock.monotonic() < until else ""

    def take_back(self, node: NodeId, bound: Bound, why: str, shunned: float = SHUNNED) -> None:
        """A node certainly did not begin a run: it goes elsewhere, and the node is left alone for a while."""
        self._shun(node, why, shunned)
        self.refused.append((bound.live, why))
        self.news.ring()

    def _shun(self, node: NodeId, why: str, seconds: float) -> None:
        self._shunned[node] = Instant(self._clock.monotonic() + seconds), why

    async def close(self) -> None:
        """Stop asking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, link: NodeLink, node: NodeId, told: Sequence[Bound]) -> None:
        is_certain = True
        while told := [bound for bound in told if self._is_bound(bound)]:
            try:
                answers = await link.dispatch_many([_start(bound.order) for bound in told], timeout=TIMEOUT)
            except (Denied, Invalid) as error:
                log.warning("a node cannot be told of its runs", extra={"node": node, "why": str(error)})
                if is_certain:
                    self._take_all_back(node, told, str(error), LOCKED_OUT)
                    return
                self._shun(node, str(error), LOCKED_OUT)
            except Unavailable as error:
                if is_certain:
                    self._take_all_back(node, told, str(error), SHUNNED)
                    self._strike(node, str(error))
                    return
            except RotaError as error:  # unknown, or somebody else is there: it may have begun
                log.debug("no answer to starts", extra={"runs": len(told), "node": node, "why": str(error)})
                is_certain = False
            else:
                for bound, answer in zip(told, answers, strict=True):
                    if isinstance(answer, AttemptRefused):
                        self.take_back(node, bound, f"node {node} refused it: {answer.why}")
                return
            await asyncio.sleep(AGAIN)

    def _take_all_back(self, node: NodeId, told: Sequence[Bound], why: str, shunned: float) -> None:
        for bound in told:
            self.take_back(node, bound, f"node {node} cannot be told: {why}", shunned)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name="tell of a run")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start(order: RunOrder) -> StartAttempt:
    return StartAttempt(
        attempt=AttemptId(order.run, order.attempt),
        epoch=Revision(order.epoch),
        payload=msgspec.json.encode(order),
    )


def order_of(start: StartAttempt) -> RunOrder:
    """What a node is told to run; Invalid if that cannot be read."""
    try:
        return msgspec.json.decode(start.payload, type=RunOrder)
    except msgspec.MsgspecError as error:
        raise Invalid(f"the start of {start.attempt} cannot be read ({error}); is that node's Rota newer?") from None
