"""What stands behind the doors of a node: what its operations need of it."""

from collections.abc import Callable
from typing import Any

import msgspec

from rota.doors.guard.budget import CallerBudget
from rota.doors.guard.idempotency import KeyBudget
from rota.doors.log_at import LogAt
from rota.doors.steer import Steer, SteerVerb
from rota.doors.verbs import OPERATIONS
from rota.doors.watches import Watches
from rota.fleet.audit.trail import AuditedStore
from rota.fleet.core.access.gate import Access
from rota.jobs.logs.port import Logs
from rota.kit.time.clock import Clock
from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.relay.core.records import Tallies
from rota.store.port import Store


async def _alone(node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any) -> Any:
    raise Unavailable(f"node {node} cannot be asked from here; ask it at its own door")


class NodeBackend(msgspec.Struct, frozen=True):
    """One node, as its doors see it."""

    store: Callable[[], Store | None]
    """The store, or None while this node has none."""

    clock: Clock
    watches: Watches
    """Keeps track of the open watches."""

    tallies: Tallies
    """Asks relays."""

    logs: Callable[[], Logs | None] = lambda: None
    """Where the output of runs is kept, or None while this node has no store."""

    steer: Steer = _alone
    """Calls a node for what only it can answer."""

    log_at: LogAt | None = None
    """Reads a log at the node that has it; None: all logs are where `logs` is."""

    keys_used: KeyBudget = msgspec.field(default_factory=KeyBudget)
    """Bounds how many idempotency keys callers use."""

    note: Callable[..., None] = lambda **_: None
    """Adds what is done without a commit to the audit trail: the caller, its address, the operation."""

    budget: CallerBudget = msgspec.field(default_factory=CallerBudget)
    """Limits how much of this node each caller may use."""

    def present_store(self) -> Store:
        """The store; Unavailable while there is none."""
        if (store := self.store()) is None:
            raise _not_yet()
        return store

    def store_for(self, by: str, origin: str, what: str, store: Store | None = None) -> Store:
        """The store for one operation of one caller; Unavailable while there is none.

        A caller that only reads gets it as it is; for the others, each change records who made it, in `store` if given.
        """
        store = store or self.present_store()
        if OPERATIONS[what] is Access.VIEW:
            return store
        return AuditedStore(store, self.clock, by=by, origin=origin, what=what)

    def present_logs(self) -> Logs:
        """Where output is kept; Unavailable while that is out of reach."""
        if (logs := self.logs()) is None:
            raise _not_yet()
        return logs


def _not_yet() -> Unavailable:
    return Unavailable("this node is not in the fleet yet; retry in a moment, or use another node", code="not_joined")
