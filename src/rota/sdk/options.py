"""Options of decorators: an unknown or missing one is reported by its name and the function's.

`@app.resource(replcas=2)` is evaluated before the function below it is seen. So that the message can name the function,
`checked` lets such a call return a decorator that refuses it. Type checkers see the method as it is written.

A method that may be called with the function at once has overloads, the last of which has the options; that one is what
`help` shows.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast, get_overloads

from rota.model.spec.checks import Check
from rota.sdk.functions import name_of

M = TypeVar("M", bound=Callable[..., Any])


def checked(kind: str) -> Callable[[M], M]:
    """For a method that takes options: an unknown or a missing required option raises Invalid."""

    def wrap(method: M) -> M:
        overloads = get_overloads(method)
        signature = inspect.signature(overloads[-1] if overloads else method)
        parameters = signature.parameters
        known = [name for name, it in parameters.items() if it.kind is it.KEYWORD_ONLY]
        needed = [name for name in known if parameters[name].default is inspect.Parameter.empty]
        plain = [name for name, it in parameters.items() if it.kind is it.POSITIONAL_OR_KEYWORD and name != "self"]
        takes_name = "name" in plain

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if takes_name:
                name = args[1] if len(args) > 1 else kwargs.get("name")
                _check(kind, name, kwargs, [*known, *plain], needed)
            elif _is_wrong(kwargs, known, needed):

                def refuse(function: object) -> None:
                    _check(kind, kwargs.get("name") or name_of(function), kwargs, known, needed)

                if len(args) > 1 and callable(args[1]):
                    refuse(args[1])  # called with the function itself
                return refuse
            return method(*args, **kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` looks at first
        return cast(M, call)

    return wrap


def _is_wrong(given: Mapping[str, Any], known: Collection[str], needed: Collection[str]) -> bool:
    return not set(needed) <= set(given) <= set(known)


def _check(kind: str, name: object, given: Mapping[str, Any], known: Collection[str], needed: Collection[str]) -> None:
    check = Check(kind, name)
    check.options(given, known)
    for option in needed:
        if option not in given:
            check.fail(f"{option}= is missing; add it")
