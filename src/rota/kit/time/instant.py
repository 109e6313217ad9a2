"""Instant: a point on some monotonic clock, in seconds.

Instants of one clock compare and subtract; instants of two clocks mean nothing to each other, which is why no
Instant is ever written to a store or sent to another machine.
"""

from typing import NewType

Instant = NewType("Instant", float)
