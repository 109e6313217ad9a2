"""Callers of services: `ServiceClient` for threads, `AsyncServiceClient` for asyncio.

Each is imported when first used, so a program that blocks does not pay for an event loop. `wire` makes and reads single
frames, for those who are neither client nor service; the layouts of frames are in `rota`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rota.client.answer import Answer, Refused, TimedOut
from rota.services.core.frames import wire

if TYPE_CHECKING:
    from rota.client.aio import AsyncServiceClient
    from rota.client.blocking import ServiceClient

__all__ = [
    "Answer",
    "AsyncServiceClient",
    "Refused",
    "ServiceClient",
    "TimedOut",
    "wire",
]

_LATER = {"AsyncServiceClient": "rota.client.aio", "ServiceClient": "rota.client.blocking"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rota.client' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
