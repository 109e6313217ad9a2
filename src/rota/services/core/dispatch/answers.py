"""What callers are answered, and what is counted of it.

Every request is answered once: by its handler, which may choose silence, or by us with a code that says why not.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

from rota.kit.histogram import Histogram
from rota.services.core.codes import Ret
from rota.services.core.dispatch.requests import Caller, PendingRequest
from rota.services.core.frames import FrameCodec
from rota.services.core.table import BENCHMARK

REASONS: Mapping[Ret, str] = {ret: ret.name.lower().replace("_", " ") for ret in Ret}
"""Each code in words, as it is counted."""


class Answers:
    """The answers of one service."""

    def __init__(self) -> None:
        self.are_failures_told = True
        """Is a request that no handler answers answered with a code?"""

        self.sent = self.silent = 0
        self.failures: Counter[Ret] = Counter()
        self.drops: Counter[str] = Counter()
        self.touched: list[Caller] = []
        """Callers whose outboxes have something, or who are done."""

        self.times = [0] * (len(BENCHMARK) + 1)
        self.latencies: dict[tuple[int, int], Histogram] = {}
        """(group, cmd) → how long its requests took."""

    def refuse(self, caller: Caller, frame: bytes, wire: FrameCodec, ret: Ret) -> None:
        """Answer that no handler did, and why."""
        self.failures[ret] += 1
        if self.are_failures_told:
            self._send(caller, wire.reply(frame, ret))
        else:
            self.silent += 1

    def fail(self, ticket: PendingRequest, ret: Ret) -> None:
        """Answer with a code that says why no handler did."""
        if ticket.is_answered:
            return
        ticket.is_answered = True
        self.refuse(ticket.caller, ticket.frame, ticket.wire, ret)
        self._settle(ticket)

    def pass_on(self, ticket: PendingRequest, answer: bytes) -> None:
        """What a handler answered; only once."""
        if ticket.is_answered:
            self.drops["late answer"] += 1
            return
        ticket.is_answered = True
        self._send(ticket.caller, answer)
        self._settle(ticket)

    def stay_silent(self, ticket: PendingRequest) -> None:
        """A handler has answered nothing, as it may."""
        if not ticket.is_answered:
            self.silent += 1
            self._settle(ticket)

    def count(self, ticket: PendingRequest, now: float) -> None:
        """Count how long a request took."""
        took = now - ticket.arrived
        self.times[bisect_right(BENCHMARK, took * 1000)] += 1
        key = (ticket.group, ticket.cmd)
        histogram = self.latencies.get(key)
        if histogram is None:
            histogram = self.latencies[key] = Histogram()
        histogram.add(int(took * 1_000_000))

    def forget(self, group: int) -> None:
        """A group is gone: its latencies are not shown any more."""
        self.latencies = {key: found for key, found in self.latencies.items() if key[0] != group}

    def _settle(self, ticket: PendingRequest) -> None:
        """A request is answered, or never will be; a caller that is leaving is touched after its last one."""
        caller = ticket.caller
        caller.unanswered -= 1
        if caller.is_leaving and not caller.unanswered and not caller.is_touched:
            caller.is_touched = True
            self.touched.append(caller)

    def _send(self, caller: Caller, answer: bytes) -> None:
        if not caller.is_open:
            self.drops["answer to a client that is gone"] += 1
            return
        self.sent += 1
        caller.outbox.append(answer)
        if not caller.is_touched:
            caller.is_touched = True
            self.touched.append(caller)
