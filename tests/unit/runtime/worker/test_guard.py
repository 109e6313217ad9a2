"""What a guard holds: what it was given, and nothing of the app's."""

import subprocess
import sys

CLOSES = """
import os
from rota.runtime.system import kernel
from rota.runtime.worker.guard import close_all_but
kernel.raise_descriptor_limit()
high = kernel.descriptor_limit() - 1
os.dup2(0, high)
os.dup2(0, 5)
os.dup2(0, 6)
close_all_but([5])
os.fstat(5)
left = 0
for fd in (6, high):
    try:
        os.fstat(fd)
        left += 1
    except OSError:
        pass
os._exit(left)
"""


def test_files_with_high_numbers_are_closed_too() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSES], timeout=60, check=False).returncode == 0
