"""Which group a request is for, as a table says it: by its cmd, or by the table's rule."""

from rota.services.core.frames import FrameCodec
from rota.services.core.routing import ROUTER, ByField, ByRange, ByWorker
from rota.services.core.table import CmdRoute, Table


class GroupChoice:
    """The choice that one table makes."""

    def __init__(self, table: Table, wire: FrameCodec) -> None:
        self._rule, self._wire = table.rule, wire
        self._choices = sorted(group for group in table.groups if group != ROUTER)

    def number(self, cmd: int, route: CmdRoute, frame: bytes) -> int | None:
        """The number of a request's group; None if the rule names none."""
        match self._rule:
            case None:
                return route.group
            case ByWorker():
                return ROUTER
            case ByField(field=field) if self._choices:
                value = self._wire.read(frame)[field]
                place = value if isinstance(value, int) else int.from_bytes(value, "big")
                return self._choices[place % len(self._choices)]
            case ByRange(ranges=ranges):
                return next((group for first, last, group in ranges if first <= cmd <= last), None)
        return None
