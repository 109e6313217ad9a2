"""Work in a child of this process, of which nothing stays but what it returns.

What the work leaves behind is never freed: the system takes the memory of the child back as a whole. So the collector
looks at nothing there, neither during the work nor afterwards. The caller must have no threads.
"""

import gc
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from traceback import format_exception
from typing import Any, TypeVar

T = TypeVar("T")


def in_a_child(work: Callable[[], T]) -> T:
    """What `work` returns, or raises, in a fork of this process; both are pickled."""
    fork = get_context("fork")
    answers, answering = fork.Pipe(duplex=False)
    child = fork.Process(target=_answer, args=(answering, work))
    child.start()
    answering.close()  # the child's is the last one then, and its death can be told
    try:
        returned, raised = answers.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"a child ended before its work did, with exit code {child.exitcode}") from None
    finally:
        answers.close()
    child.join()
    if raised is not None:
        raise raised
    result: T = returned
    return result


def _answer(answering: "Connection[Any, Any]", work: Callable[[], Any]) -> None:
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who presses Ctrl-C wants no traceback from here
    try:
        answering.send((work(), None))
    except Exception as error:
        error.add_note("".join(format_exception(error)))  # where it was would be lost on the way
        answering.send((None, error))
