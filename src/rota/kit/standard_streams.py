"""stdin, stdout and stderr: open for as long as the process lives, even if it was started without them."""

import os
import sys


def fill_in() -> None:
    """Open /dev/null for each of the three that is closed. To be called before anything else opens a file.

    Otherwise the next file or socket gets the number 1, and what the app prints goes into it.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            lowest_free = os.open(os.devnull, os.O_RDWR)  # which is this one
            os.set_inheritable(lowest_free, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  # for as long as the process lives
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
