"""An answer of a service, and the errors of calls that got none, or not the one they wanted.

Errors are sorted by what the caller can do. `Unavailable`: the request was not sent whole, so nothing happened.
`Unknown`: it was sent, and may have run. `TimedOut` is an Unknown that is a TimeoutError too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.services.core.codes import Ret

_MEANINGS: Mapping[int, tuple[type[RotaError], str]] = {
    Ret.UNKNOWN_CMD: (Invalid, "no handler has this cmd; check its number"),
    Ret.HANDLER_ERROR: (Unknown, "the handler failed; the log of its node says where"),
    Ret.WORKER_LOST: (Unknown, "the worker was lost at it; check how far it came before you retry"),
    Ret.QUEUE_FULL: (Unavailable, "too many requests wait; nothing happened: retry later"),
    Ret.NO_SUCH_GROUP: (Invalid, "its group has no workers; check the service's groups"),
    Ret.DEADLINE: (Unknown, "it took longer than the service allows; check how far it came before you retry"),
    Ret.STOPPING: (Unavailable, "the service is stopping; nothing happened: retry later"),
}


class TimedOut(Unknown, TimeoutError):
    """No answer in time, although the request was sent; it may have run, or may still run."""


class Refused(RotaError):
    """The handler answered with a code of its own, whose meaning the service defines."""

    def __init__(self, message: str, answer: "Answer") -> None:
        super().__init__(message)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    ret: int
    """0 for success; 0 too where the frames have no such field."""

    body: bytes
    cmd: int
    sn: int
    """The number by which it was matched with its request."""

    fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole header, by name."""

    def json(self) -> Any:
        """The body, read as JSON."""
        try:
            return msgspec.json.decode(self.body)
        except UNREADABLE as error:
            raise Invalid(f"the answer to cmd {self.cmd} is not JSON: {error}; read its body instead") from None

    def raise_for_ret(self) -> "Answer":
        """Returns itself if `ret` is 0; otherwise raises the error for its code."""
        if self.ret == 0:
            return self
        if self.ret not in _MEANINGS:
            raise Refused(f"cmd {self.cmd} was answered with ret {self.ret}; see what the service means by it", self)
        family, meaning = _MEANINGS[self.ret]
        raise family(f"cmd {self.cmd} was answered with ret {self.ret}: {meaning}")
