"""What asyncio leaves to its users."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, which runs in a task of its own; CancelledError if this one was asked to stop meanwhile.

    For work with task groups whose failure is handled by a caller that continues. Before Python 3.13 a group that fails
    leaves its task in a wrong state: if that was cancelled at the same moment, the failure is raised and the
    cancellation forgotten; and if a member failed while the group only waited for its members, the task counts as
    cancelled from then on although no one cancelled it. Neither reaches beyond the task that the groups are in.
    """
    me, task = asyncio.current_task(), asyncio.ensure_future(work)
    assert me is not None
    before = me.cancelling()
    try:
        return await task
    except BaseException as error:
        if me.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
