"""Processes of ours that the agent starts beside the app's: proxies and the relay."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable

from rota.node import kernel
from rota.node.confine import cleaned


def start(
    module: str, control: socket.socket, flags: Iterable[str], fds: Iterable[int] = ()
) -> tuple[kernel.Handle, int]:
    """A process that runs a module: its handle, and the end of its lifeline that we keep.

    It gets its end of the control channel, its lifeline, and the other descriptors under the numbers they have here.
    It needs none of Rota's settings from the environment, and so gets no password of the store there.
    """
    theirs, ours = os.pipe()
    argv = [sys.executable, "-P", "-m", module, f"--control={control.fileno()}", f"--lifeline={theirs}", *flags]
    try:
        inherited = [control.fileno(), theirs, *fds]
        process = subprocess.Popen(
            argv, env=cleaned(os.environ), stdin=subprocess.DEVNULL, pass_fds=inherited, process_group=0
        )
        kernel.tie(process.pid, theirs)
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    process.returncode = 0  # the agent reaps all its children itself
    return kernel.Handle(process.pid), ours
