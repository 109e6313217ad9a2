"""What the tasks of a worker report to the agent: the states they save, and how they end.

Reports wait here while the channel has no room. A state that still waits is replaced by a newer one of the same task,
so what waits is bounded by the number of tasks, and a task that saves too often delays nobody but itself. A task's end
follows the state that it saved last: the agent writes that state before it gives the assignment back.
"""

from rota.resources.pipe import Save, TaskEnded
from rota.runtime.pipes.channel import Channel


class Reports:
    """The reports of one worker's tasks, on their way through its channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: dict[tuple[str, int], dict[type, Save | TaskEnded]] = {}

    def add(self, report: Save | TaskEnded) -> None:
        """Send a report as soon as there is room."""
        self._waiting.setdefault((report.task, report.epoch), {})[type(report)] = report
        self._send()

    async def flush(self) -> None:
        """Wait until every report was sent, or the agent is gone."""
        while self._waiting and self._channel.is_open:
            self._send()
            await self._channel.flush()
        await self._channel.flush()

    def _send(self) -> None:
        while self._waiting and self._channel.has_room:
            for report in self._waiting.pop(next(iter(self._waiting))).values():
                self._channel.send(report)
        if self._waiting:
            self._channel.when_room(self._send)
