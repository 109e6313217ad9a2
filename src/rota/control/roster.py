"""The roster: which nodes there are, told and written down.

The leader reads all node keys at one revision and follows them from there. Each arrival and departure is logged, and
the names are kept under one key: the next leader learns from it whom to wait for before it calls anything missing.
"""

import logging
from collections.abc import Mapping
from contextlib import aclosing

from rota.control.term import Term
from rota.decide.membership import moves
from rota.model import codec, keys
from rota.model.errors import Compacted
from rota.model.ids import NodeId
from rota.model.node import Node, Roster
from rota.store.port import Commit, Listing, Put

log = logging.getLogger(__name__)


async def keep_roster(term: Term) -> None:
    """Follow the nodes for as long as the term lasts."""
    known: dict[NodeId, Node] = {}
    while True:
        listing = await term.store.scan(keys.NODES)
        known = await _tell(term, known, _load(listing))
        try:
            async with aclosing(term.store.watch(keys.NODES, listing.revision)) as commits:
                async for commit in commits:
                    known = await _tell(term, known, _fold(known, commit))
        except Compacted:
            log.warning("roster fell behind, reading it anew", extra={"term": term.number})


async def _tell(term: Term, before: Mapping[NodeId, Node], after: dict[NodeId, Node]) -> dict[NodeId, Node]:
    change = moves(before, after)
    for node in change.joined:
        log.info("node joined", extra={"node": node, "term": term.number})
    for node in change.restarted:
        log.info("node restarted", extra={"node": node, "term": term.number})
    for node in change.left:
        log.warning("node left", extra={"node": node, "term": term.number})
    if change.joined or change.left:
        await term.commit(Put(keys.ROSTER, codec.encode(Roster(nodes=tuple(sorted(after))))))
    return after


def _load(listing: Listing) -> dict[NodeId, Node]:
    return {node.id: node for node in (codec.decode(Node, entry.value) for entry in listing.entries)}


def _fold(known: Mapping[NodeId, Node], commit: Commit) -> dict[NodeId, Node]:
    after = dict(known)
    for change in commit.changes:
        if change.entry is None:
            after.pop(NodeId(change.key.removeprefix(keys.NODES)), None)
        else:
            node = codec.decode(Node, change.entry.value)
            after[node.id] = node
    return after
