"""Setting a stream's offsets, as requested or as the stream's policy says when its source was made anew."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from rota.kit.record import replace
from rota.model import codec, keys
from rota.outputs.port import Committer
from rota.store.port import Put, Write
from rota.streams.core.records import MoveRecord, Reset, StreamRecord, backfill_of
from rota.streams.core.spec import StreamSpec, backfill, declared
from rota.streams.fleet import moving
from rota.streams.fleet.account import Account
from rota.streams.fleet.heard import WishesHeard
from rota.streams.fleet.outside import Outside
from rota.streams.fleet.writing import WRITES


class Resets:
    """The resets of one stream."""

    def __init__(
        self,
        name: str,
        record: Callable[[], StreamRecord],
        outside: Outside,
        account: Account,
        wishes: WishesHeard,
        commit: Callable[[list[Write], datetime], Awaitable[bool]],
        tell: Callable[..., None],
    ) -> None:
        self._name, self._record, self._outside, self._account = name, record, outside, account
        self._wishes, self._commit, self._tell = wishes, commit, tell

    async def make(self, output: Committer, spec: StreamSpec, reset: Reset, now: datetime) -> None:
        """Set offsets as requested, and remove the request. What was read from other offsets is given up for that.

        Once the wish has the id of its moves nobody can ask for something else, so what it comes to is found out first.
        A stream that reads what is left out is declared in the commit that takes the wish out.
        """
        account, outside = self._account, self._outside
        if not reset.move:
            await moving.wanted(outside, account.committed, reset, account.committed)
            reset = replace(reset, move=moving.new_id(now), source=outside.identity)
            if not await self._commit([self._wishes.written_with(reset)], now):
                return
        try:
            made = await moving.make(output, outside, self._name, reset, now)
        except moving.NotMade:  # the request may have changed
            await self._commit([self._wishes.written_with(replace(reset, move=""))], now)
            raise
        if made is None:
            return
        account.committed = await output.committed()
        writes: list[Write] = [self._wishes.written_with(None)]
        if (filling := self._backfill(spec, reset, made)) is not None:
            writes.append(Put(keys.STREAMS + filling.name, codec.encode(filling)))
            made = [replace(each, backfill=filling.name) for each in made]
        moved = {partition for each in made for partition in each.after}
        if reset.source == outside.identity and moved >= outside.bounds.keys() & account.committed.keys():
            account.adopt_source(now)
        # First, and some at a time: a pattern of many topics makes more moves than one commit takes.
        noted: list[Write] = [Put(keys.stream_move(self._name, each.id), codec.encode(each)) for each in made]
        for start in range(0, len(noted), WRITES):
            if not await self._commit(noted[start : start + WRITES], now):
                return  # they are asked for again
        if await self._commit(writes, now):
            cause = {"by": reset.by} if reset.by else {"policy": spec.vanished}
            self._tell("stream.moved", self._name, why=reset.why, **cause)

    def _backfill(self, spec: StreamSpec, reset: Reset, made: Iterable[MoveRecord]) -> StreamRecord | None:
        """The stream that reads what a reset leaves out, if one was requested and something is left out."""
        ranges = {
            partition: (move.before[partition], at)
            for move in made
            for partition, at in move.after.items()
            if at > move.before[partition]
        }
        if not reset.is_backfilled or not ranges:
            return None
        return declared(self._record().app, backfill(spec, backfill_of(self._name, reset.at), ranges))
