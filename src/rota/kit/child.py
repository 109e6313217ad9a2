"""Work in a child of this process, which leaves nothing behind but its result.

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
    answering.close()  # then the child holds the last copy, and its death can be noticed
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
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C should print no traceback from here
    try:
        answering.send((work(), None))
    except Exception as error:
        error.add_note("".join(format_exception(error)))  # the traceback would be lost by pickling
        answering.send((None, error))
