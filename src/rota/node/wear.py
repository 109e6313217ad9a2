"""Wear: when a worker has lived, worked or grown enough to be replaced by a fresh one."""

from dataclasses import dataclass
from datetime import timedelta

import psutil

from rota.kit import durations
from rota.model.config import RuntimeConfig


@dataclass(frozen=True)
class Wear:
    """What a worker has behind it."""

    age: timedelta
    done: int
    pid: int | None


def worn(wear: Wear, config: RuntimeConfig) -> str:
    """Why the worker should be replaced, or nothing."""
    if config.recycle_age is not None and wear.age >= config.recycle_age:
        return f"it is older than {durations.render(config.recycle_age)}"
    if config.recycle_count is not None and wear.done >= config.recycle_count:
        return f"it has done {wear.done} pieces of work"
    if config.recycle_memory is not None and (used := memory(wear.pid)) >= config.recycle_memory:
        return f"it holds {used // 2**20} MiB"
    return ""


def memory(pid: int | None) -> int:
    """Bytes of memory that a process holds; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid else 0
    except psutil.Error:
        return 0
