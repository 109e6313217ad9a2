"""Inspecting a user's function: is it async, can it be called with the arguments it will get, which type it annotates.

Annotations are read for one argument only, and only when they matter: a return type that exists for the type checker
alone does no harm.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from rota.model.spec.checks import Check

Function = Callable[..., Any]


def name_of(function: object) -> str:
    """The name of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def is_async(function: object) -> bool:
    """Does calling it give something to await, or to iterate over with `async for`?"""
    for each in (function, getattr(function, "__call__", None)):  # noqa: B004  # an object may have an async __call__
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            return True
    return False


def yields(function: object) -> bool:
    """Is it a generator, async or not?"""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def check_function(check: Check, function: object, *arguments: str, may_yield: bool = False) -> None:
    """Raises Invalid unless `function` can be called with these arguments."""
    if not callable(function):
        check.fail(f"it decorates {function!r}; decorate a function")
    if isinstance(function, type):
        check.fail(f"it decorates the class {function.__name__}; decorate a function")
    if yields(function) and not may_yield:
        check.fail("its function is a generator, which would never be iterated; remove the yield")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none; calling them will show
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        takes = {0: "no argument", 1: "one argument", 2: "two arguments"}[len(arguments)]
        like = f"def {name_of(function)}({', '.join(arguments)})"
        check.fail(f"its function takes {signature}; it must take {takes}: {like}")


def first_annotation(check: Check, function: Function) -> object:
    """The annotation of the function's first argument; None if it has none."""
    try:
        parameter = next(iter(inspect.signature(function).parameters.values()))
        if parameter.annotation is inspect.Parameter.empty:
            return None
        says = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
        return typing.get_type_hints(says, globalns=_globals(function))["it"]
    except NameError as error:
        check.fail(
            f"the type of its argument cannot be found: {error}; import it at run time, not for type checking only"
        )
    except (TypeError, ValueError, SyntaxError) as error:
        check.fail(f"the type of its argument is not understood: {error}")


def _globals(function: object) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return dict(getattr(inspect.unwrap(typing.cast(Function, function)), "__globals__", {}))
