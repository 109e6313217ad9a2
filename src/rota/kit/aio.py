"""What asyncio leaves to its users."""

import asyncio


def heed_cancellation() -> None:
    """Raise CancelledError if this task was asked to stop while it was busy failing.

    When a task group fails and is cancelled at the same moment, asyncio (before 3.13) raises the failure and forgets
    the cancellation. Whoever handles such a failure and goes on must ask here first, or it cannot be stopped.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
