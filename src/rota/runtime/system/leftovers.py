"""Leftovers: processes that the app started in an earlier life of this node, and that outlived it.

A process that went into a session of its own is out of reach of lifelines, and stays when its agent is killed. But it
has inherited a variable that names the node's data folder. A running node holds the lock of its folder. So a process
with the folder's name that exists when a node starts belongs to an earlier life, and is killed before the app runs
again.

A program that was started with an environment of its own, or by another user, is not found. Neither is anything where
there is no /proc. Where the node may make cgroups, `runtime.system.enclosure` finds those as well.
"""

import logging

from rota.runtime.system import kernel

log = logging.getLogger(__name__)

MARK = "ROTA_NODE_HOME"
"""The variable; its value is the home of the node's data folder."""

ROUNDS = 10
"""Searches at most: processes that are found may start others meanwhile."""


def end_leftovers(home: str) -> None:
    """Kill the processes of earlier lives; the folder with this home must be locked."""
    for _ in range(ROUNDS):
        found = kernel.processes_with(MARK, home)
        if not found:
            return
        log.warning("ending what an earlier life left behind", extra={"pids": sorted(each.pid for each in found)})
        kernel.end(each.pid for each in kernel.still_there(found))
