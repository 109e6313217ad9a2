"""A spec from the options that a user gives: the one reader of every kind. Pure.

The type of a field says how its option is checked; a spec hands in checks of its own where that is not enough. None
counts as left out where it is no value of the field.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from rota.model.spec.checks import Check
from rota.model.spec.option import Option, options_of

S = TypeVar("S", bound=msgspec.Struct)
Own = Mapping[str, Callable[[Check, Any], Any]]
"""By option: what checks its value and returns that of the field."""


def read(
    spec: type[S],
    check: Check,
    given: Mapping[str, object],
    *,
    own: Own | None = None,
    among: Sequence[Option] | None = None,
    **derived: object,
) -> S:
    """The spec that these options make; Invalid says which of them is unknown, missing or wrong.

    `among`: the options that there are, if not all of the spec. `derived`: fields that are no options.
    """
    options = options_of(spec) if among is None else among
    check.options(given, [option.name for option in options])
    values = dict(derived)
    for option in options:
        if option.name not in given:
            if option.is_required:
                check.fail(f"{option.name}= is missing; add it")
        elif (value := given[option.name]) is not None or option.takes_none or option.is_required:
            values[option.field] = _value(check, option, value, own or {})
    return spec(**values)


def _value(check: Check, option: Option, value: Any, own: Own) -> Any:
    if value is None and option.takes_none:
        return None
    if option.name in own:
        return own[option.name](check, value)
    if option.name == "name":
        return check.name(value)
    return _by_type(check, option, value)


def _by_type(check: Check, option: Option, value: Any) -> Any:
    name, kind, said = option.name, option.type, option.said
    least = {} if said.least is None else {"least": said.least}
    if kind is int:
        return check.count(name, value, **least, most=said.most)
    if kind is timedelta:
        return check.duration(name, value, **least)
    if get_origin(kind) is Literal:
        return check.choice(name, value, get_args(kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(check.choice(name, value, [str(each) for each in kind]))
    return _CHECKS[kind](check, name, value)


_CHECKS: Mapping[Any, Callable[[Check, str, Any], Any]] = {
    bool: Check.flag,
    str: Check.text,
    datetime: Check.moment,
    dict[str, str]: Check.labels,
    tuple[str, ...]: Check.names,
}
