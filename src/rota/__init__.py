"""Rota keeps Python work running on a fleet of machines, without losing or doubling it.

The names below are the promise. Those that apps are written with are imported when first used, so that programs which
only talk to a fleet do not pay for them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rota.model.errors import Conflict, Denied, Invalid, Rejected, RotaError, Unavailable, Unknown

if TYPE_CHECKING:
    import rota.testing as testing  # noqa: PLR0402  # a module cannot import from itself, says mypy
    from rota.resources.core.spec import Resource
    from rota.sdk.app import App
    from rota.sdk.context import Message, Run, SyncTask, Task
    from rota.sdk.service import Routes
    from rota.services.core.context import Reply, Request
    from rota.services.core.frames import BOX, MAPLE_TASK, Field, Layout
    from rota.services.core.routing import ByField, ByRange
    from rota.streams.core.context import Batch, Record

__all__ = [
    "BOX",
    "MAPLE_TASK",
    "App",
    "Batch",
    "ByField",
    "ByRange",
    "Conflict",
    "Denied",
    "Field",
    "Invalid",
    "Layout",
    "Message",
    "Record",
    "Rejected",
    "Reply",
    "Request",
    "Resource",
    "RotaError",
    "Routes",
    "Run",
    "SyncTask",
    "Task",
    "Unavailable",
    "Unknown",
    "__version__",
    "testing",
]

__version__ = "0.1.0"

_BATCHES = "rota.streams.core.context"
_CONTEXT = "rota.sdk.context"
_FRAMES = "rota.services.core.frames"
_REQUESTS = "rota.services.core.context"
_ROUTING = "rota.services.core.routing"
_LATER = {
    "App": "rota.sdk.app",
    "BOX": _FRAMES,
    "Batch": _BATCHES,
    "ByField": _ROUTING,
    "ByRange": _ROUTING,
    "Field": _FRAMES,
    "Layout": _FRAMES,
    "MAPLE_TASK": _FRAMES,
    "Message": _CONTEXT,
    "Record": _BATCHES,
    "Reply": _REQUESTS,
    "Request": _REQUESTS,
    "Resource": "rota.resources.core.spec",
    "Routes": "rota.sdk.service",
    "Run": _CONTEXT,
    "SyncTask": _CONTEXT,
    "Task": _CONTEXT,
}


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("rota.testing")
    if name not in _LATER:
        raise AttributeError(f"module 'rota' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
