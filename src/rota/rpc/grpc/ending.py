"""How a call ended, as the other end put it.

A write that finds its call over makes gRPC forget how it ended: in the place of the status there is then an error of
its own, `FROM_CORE` (https://github.com/grpc/grpc/issues/36066). So the status is noted in the step in which it comes;
asked later, the call may not know it any more.

The same error makes `read` give up, while messages are still there to be read. Who writes to a call therefore reads it
by `async for`, which goes on to the last of them.
"""

from typing import Any

import grpc

FROM_CORE = "Internal error from Core"


class Ending:
    """Of one call; to be made together with it."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._noted: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._note)

    async def status(self) -> grpc.aio.AioRpcError:
        """The status of a call that is over; its code may be OK."""
        return self._noted or await _status(self._call)

    def _note(self, call: Any) -> None:
        try:
            _status(call).send(None)  # it need not wait, and a task of its own would come too late
        except StopIteration as returned:
            status: grpc.aio.AioRpcError = returned.value
            if status.details() != FROM_CORE:  # else what the other end said comes after what it sent was read
                self._noted = status


async def _status(call: Any) -> grpc.aio.AioRpcError:
    code, details = await call.code(), await call.details()
    return grpc.aio.AioRpcError(code, await call.initial_metadata(), await call.trailing_metadata(), details=details)
