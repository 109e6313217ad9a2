"""How a service's requests find their group. Pure.

Usually a handler names the group, and so the cmd decides. A service may have a rule for all its requests instead: by a
field of the header, so that equal values meet in one group; by ranges of cmds; or by a function of the user's, which
runs in workers of its own, because the proxy has none of the user's code.
"""

import msgspec

ROUTER = -1 << 40
"""The group of the workers that only say which group a request is for; no user's group has this number."""


class ByField(msgspec.Struct, frozen=True, tag="field"):
    """The group is chosen by a field of the header: equal values, same group."""

    field: str


class ByRange(msgspec.Struct, frozen=True, tag="range"):
    """The group is chosen by the range that the cmd is in: (first, last, group)."""

    ranges: tuple[tuple[int, int, int], ...]


class ByWorker(msgspec.Struct, frozen=True, tag="worker"):
    """A function of the user's chooses the group, in a worker of its own."""


Rule = ByField | ByRange | ByWorker
