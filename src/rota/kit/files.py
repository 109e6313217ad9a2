"""Files: what the standard library leaves to each caller."""

import os
from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Have it on disk which files a folder has: a new file is lost in a power failure without that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
