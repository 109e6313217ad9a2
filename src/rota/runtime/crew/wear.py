"""Wear: when a worker has lived, worked or grown enough to be replaced by a fresh one."""

from datetime import timedelta

import msgspec
import psutil

from rota.kit.time import durations
from rota.model.config import RuntimeConfig

FULL = 0.95
"""The share of `max_memory` from which on a worker has too little left to work."""

SETTLED = timedelta(seconds=10)
"""Seconds of age before which a full worker is not replaced: one that is full from the start would be again and again.
"""


class Wear(msgspec.Struct, frozen=True):
    """How long a worker has lived, and what it has done and used."""

    age: timedelta
    done: int
    pid: int | None


def worn(wear: Wear, config: RuntimeConfig) -> str:
    """Why the worker should be replaced; empty if it should not."""
    if config.recycle_age is not None and wear.age >= config.recycle_age:
        return f"it is older than {durations.render(config.recycle_age)}"
    if config.recycle_count is not None and wear.done >= config.recycle_count:
        return f"it has done {wear.done} pieces of work"
    if config.recycle_memory is not None and (used := memory(wear.pid)) >= config.recycle_memory:
        return f"it holds {used // 2**20} MiB"
    if config.max_memory is not None and wear.age >= SETTLED and (used := data(wear.pid)) >= FULL * config.max_memory:
        return f"it uses {used // 2**20} of the {config.max_memory // 2**20} MiB that max_memory allows"
    return ""


def memory(pid: int | None) -> int:
    """Bytes of memory that a process holds; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid else 0
    except psutil.Error:
        return 0


def data(pid: int | None) -> int:
    """Bytes that a process has for its data, which its limit counts; 0 if it is gone or the system does not say."""
    try:
        return int(getattr(psutil.Process(pid).memory_info(), "data", 0)) if pid else 0
    except psutil.Error:
        return 0
