"""The report on an import that takes long: a line in the log now and then, until it ends.

It shows an operator who sees nothing happen what the node waits for, and by the processor time whether the import
computes or waits itself.
"""

import asyncio
import logging

import psutil

log = logging.getLogger(__name__)

FIRST = 5.0
"""Seconds after which the first line comes."""

NEXT = 10.0
"""Seconds from one line to the next."""


async def report_import(app: str, generation: int, pid: int) -> None:
    """Log what the node waits for, until cancelled; `pid` is the process that imports."""
    now = asyncio.get_running_loop().time
    began, pause = now(), FIRST
    while True:
        await asyncio.sleep(pause)
        pause = NEXT
        fields = {"app": app, "generation": generation, "waited_s": round(now() - began), "cpu_s": _cpu_seconds(pid)}
        log.info("still importing the app", extra=fields)


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has used; 0 if it is gone."""
    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return round(used.user + used.system, 1)
