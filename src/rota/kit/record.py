"""`replace` for records: a copy with some fields changed, whether its class is a struct or a dataclass.

Records are msgspec structs: at every start a class of them is made in a fiftieth of the time that a dataclass takes,
and an instance in a tenth. Where something needs what only dataclasses have (a field that is not compared or not shown,
a value worked out once), it is a dataclass.
"""

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(record: T, /, **changes: Any) -> T:
    """A copy with these fields changed; `__post_init__` checks it."""
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.replace(record, **changes)
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]
