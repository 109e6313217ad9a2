"""Errors of users' code as text that can be sent and kept, whatever their message and its length."""

LONGEST = 1000
"""Characters of a description."""


def described(error: BaseException, longest: int = LONGEST) -> str:
    """The type of an error and its message."""
    return sendable(f"{type(error).__name__}: {_message(error)}", longest)


def sendable(text: str, longest: int = LONGEST) -> str:
    """At most `longest` characters of a text; what UTF-8 cannot hold (a lone surrogate) is written as its code."""
    plain = text[: longest + 1].encode(errors="backslashreplace").decode()
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def in_one_line(error: BaseException, said: object = None) -> str:
    """The message of an error, or the text given in its place, in one line; the error's type if that is empty."""
    return " ".join(str(error if said is None else said).split()) or type(error).__name__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failed:  # the message is users' code, too
        return f"its message cannot be read, str() raises {type(failed).__name__}"
