"""A confined program: `python -m rota.runtime.system.confined CONFINEMENT PROGRAM …` confines itself and becomes the
program.

The agent has threads, so no Python may run between its fork and the program. Therefore this process drops the rights
and the variables that a command must not have. Nothing of the app is imported here.
"""

import os
import sys

import msgspec

from rota.runtime.system.confine import Confinement, confine, confine_attempt


def main(argv: list[str]) -> None:
    """Confine this process, and become the program."""
    confinement = msgspec.json.decode(argv[0], type=Confinement)
    confine(confinement)
    confine_attempt(confinement)
    os.execv(argv[1], argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
