"""How often a caller may be refused before it has to wait.

Each source (an address) may fail `BURST` times at once, and then once in each period. A caller with a valid token is
never delayed, whatever others on its machine did: no caller can lock another out. The limit is on the cost of failures:
the work, and the lines of the audit trail.

A limited number of sources is remembered; the one that failed longest ago is forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from rota.kit.time.instant import Instant

AT_ONCE = 50
"""Failures that are answered one after the other."""

EVERY = 1.0
"""Seconds from one to the next after that."""

MOST = 4096
"""Sources that are remembered."""


@dataclass
class _Spent:
    """How many failures a source has left, and since when."""

    left: float
    at: Instant


class Failures:
    """The sources that were refused, and how often lately."""

    def __init__(self, at_once: int = AT_ONCE, every: float = EVERY, most: int = MOST) -> None:
        self._at_once, self._every, self._most = at_once, every, most
        self._spent: OrderedDict[str, _Spent] = OrderedDict()

    def is_too_often(self, source: str, now: Instant) -> bool:
        """Count one more failure of a source: has it had too many?"""
        spent = self._spent.pop(source, None) or _Spent(self._at_once, now)
        regained = max(0.0, now - spent.at) / self._every
        left = min(float(self._at_once), spent.left + regained)
        self._spent[source] = _Spent(max(0.0, left - 1), now)
        if len(self._spent) > self._most:
            self._spent.popitem(last=False)
        return left < 1


def source_of(address: str) -> str:
    """The source of an address: the address itself, or its network for IPv6, where one machine has millions of
    addresses."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped) if found.ipv4_mapped else f"{IPv6Address(int(found) >> 64 << 64)}/64"
