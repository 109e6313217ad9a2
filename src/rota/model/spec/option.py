"""The options that stand for the fields of a spec: what a user may say of a job, a kind, a service or a stream.

A field of a spec is the one place where an option is declared: its name, its type, its default, the text below it, and
what `Said` adds to these. The readers of declarations, OpenAPI, the command line and the reference follow from it.
Pure.
"""

from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, get_args, get_origin

import msgspec


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the name and the type of a field do not say of its option."""

    option: str = ""
    """The option's name, if it is not the field's."""

    word: str = ""
    """What stands for the value in help, such as ZONE."""

    least: Any = None
    """The least number or duration; None: 1, or longer than nothing."""

    most: int | None = None
    """The greatest number; None: any."""

    is_option: bool = True
    """False: users do not say it; it follows from their code."""


DERIVED = Said(is_option=False)
"""Of a field that is no option."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may say of one field."""

    name: str
    field: str
    type: Any
    """The type of the field, without None."""

    takes_none: bool
    """Is None a value of the field?"""

    default: Any
    """The field's value if nothing is said; NODEFAULT: something must be."""

    said: Said

    @property
    def is_required(self) -> bool:
        """Must it be given?"""
        return self.default is msgspec.NODEFAULT


@cache
def options_of(spec: type[msgspec.Struct]) -> tuple[Option, ...]:
    """The options of a spec, in the order of its fields."""
    options = (_option(each) for each in msgspec.structs.fields(spec))
    return tuple(option for option in options if option.said.is_option)


def _option(field: msgspec.structs.FieldInfo) -> Option:
    hint, said = field.type, Said()
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        said = next((each for each in more if isinstance(each, Said)), said)
    takes_none = type(None) in get_args(hint)
    if takes_none:
        hint = reduce(or_, (each for each in get_args(hint) if each is not type(None)))
    return Option(
        name=said.option or field.name,
        field=field.name,
        type=hint,
        takes_none=takes_none,
        default=field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        said=said,
    )
