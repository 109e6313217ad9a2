"""The user at the command line, recorded as the author of a change."""

import getpass


def me() -> str:
    """The user's name, as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
