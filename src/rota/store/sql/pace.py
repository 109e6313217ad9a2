"""How often a store is polled for commits of other processes. Pure.

MySQL has only the poll, so its interval is short there; a thousand processes that poll ten times a second would be most
of the database's load. So the interval grows with the size of the fleet, and a little while nothing happens.
"""

CROWD = 100
"""Leases up to which a store is polled as often as it should be: each node holds one or two."""

LONGEST = 1.0
"""Seconds between two polls, at most, whatever the size of the fleet."""

IDLE = 3
"""How many times longer the poll may become where nothing happens."""

PATIENCE = 20
"""Polls that found nothing after which it is twice as long as at first."""


def until_next_poll(shortest: float, found_nothing: int, leases: int) -> float:
    """Seconds until the next poll, after `found_nothing` polls without news and with `leases` in the store."""
    for_size = shortest * leases / CROWD
    for_quiet = shortest * min(IDLE, 1 + found_nothing / PATIENCE)
    return max(shortest, min(LONGEST, max(for_size, for_quiet)))
