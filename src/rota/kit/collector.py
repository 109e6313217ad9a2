"""The garbage collector of a process that runs for long.

Rota's own processes leave little behind that only the collector could find: cycles of tasks and exceptions, a few a
second. But each look of it takes as long as there is to look at: a quarter of the time of a leader with a large fleet
in its view. The price: what is in a cycle lives longer.
"""

import gc


def look_rarely() -> None:
    """Leave what is there now alone for good, and look at the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
