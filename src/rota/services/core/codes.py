"""The `ret` of answers that no handler gave. Part of the wire contract: clients compare with these numbers."""

from enum import IntEnum


class Ret(IntEnum):
    """Why a request was not answered by its handler."""

    UNKNOWN_CMD = -10000
    HANDLER_ERROR = -10001
    WORKER_LOST = -10002
    QUEUE_FULL = -10003
    NO_SUCH_GROUP = -10004
    DEADLINE = -10005
    STOPPING = -10006
