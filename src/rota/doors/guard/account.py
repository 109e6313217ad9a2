"""How much of a node's event loop each caller has used lately. Pure: time is an argument.

A caller has an account of seconds. What its calls cost is taken from it, and it fills again at a constant rate. An
account may be overdrawn by one expensive call; the caller then waits until it is above zero.

At most `most` accounts are kept; the one that was used longest ago is dropped first, and is then full again.
"""

from collections import OrderedDict

import msgspec

from rota.kit.time.instant import Instant

BURST = 2.0
"""Seconds of the event loop in a full account."""

RATE = 0.25
"""Seconds that an account regains in a second."""

MOST = 4096
"""Accounts that are kept."""


class _Account(msgspec.Struct, frozen=True):
    """What is left, and when that was so."""

    left: float
    at: Instant


class Accounts:
    """The accounts of all callers of a node."""

    def __init__(self, burst: float = BURST, rate: float = RATE, most: int = MOST) -> None:
        self._burst, self._rate, self._most = burst, rate, most
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def charge(self, who: str, cost: float, now: Instant) -> None:
        """Take `cost` seconds from an account."""
        self._accounts[who] = _Account(self._left(who, now) - cost, now)
        self._accounts.move_to_end(who)
        if len(self._accounts) > self._most:
            self._accounts.popitem(last=False)

    def wait(self, who: str, now: Instant) -> float:
        """Seconds until an account is above zero; 0 if it is."""
        return max(0.0, -self._left(who, now) / self._rate)

    def _left(self, who: str, now: Instant) -> float:
        account = self._accounts.get(who)
        if account is None:
            return self._burst
        return min(self._burst, account.left + max(0.0, now - account.at) * self._rate)
