"""The roster: which nodes there are, reported and written to the store.

The leader reads all node keys at one revision and follows them from there. Each arrival and departure is logged, and
the names and sessions are kept under one key, so that the next leader can report which left while no node led.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeAlias

from rota.fleet.core.members.membership import moves
from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.errors import Compacted
from rota.model.ids import NodeId, SessionId
from rota.model.node import Node, Roster
from rota.store.port import Commit, Put, ScanResult
from rota.store.records import understood

log = logging.getLogger(__name__)

Sessions: TypeAlias = dict[NodeId, SessionId]


def _say(kind: str, subject: str, **fields: int) -> None:
    level = logging.WARNING if kind == "node.left" else logging.INFO
    log.log(level, kind.replace(".", " "), extra={"node": subject, **fields})


async def keep_roster(term: Term, report: Callable[..., None] = _say) -> None:
    """Follow the nodes for as long as the term lasts; `report` is called for each arrival and departure."""
    known: Sessions = (await last_roster(term)).nodes
    while True:
        listing = await term.store.scan(keys.NODES)
        known = await _report(term, report, known, _load(listing))
        try:
            async with aclosing(term.store.watch(keys.NODES, listing.revision)) as commits:
                async for commit in commits:
                    known = await _report(term, report, known, _fold(known, commit))
        except Compacted:
            log.warning("roster fell behind, reading it anew", extra={"term": term.number})


async def last_roster(term: Term) -> Roster:
    """The roster that the previous leader wrote."""
    return understood(Roster, await term.store.get(keys.ROSTER), log) or Roster(nodes={})


async def _report(term: Term, report: Callable[..., None], before: Sessions, after: Sessions) -> Sessions:
    change = moves(before, after)
    for kind, nodes in (
        ("node.joined", change.joined),
        ("node.restarted", change.restarted),
        ("node.left", change.left),
    ):
        for node in nodes:
            report(kind, node, term=term.number)
    if before != after:
        await term.commit(Put(keys.ROSTER, codec.encode(Roster(nodes=dict(sorted(after.items()))))))
    return after


def _load(listing: ScanResult) -> Sessions:
    nodes = (understood(Node, entry, log) for entry in listing.entries)
    return {node.id: node.session for node in nodes if node is not None}


def _fold(known: Sessions, commit: Commit) -> Sessions:
    after = dict(known)
    for change in commit.changes:
        if change.entry is None:
            after.pop(NodeId(change.key.removeprefix(keys.NODES)), None)
        else:
            node = understood(Node, change.entry, log)
            if node is not None:
                after[node.id] = node.session
    return after
