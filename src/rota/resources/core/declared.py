"""Resources that the settings declare: the changes that make the stored ones match. Pure.

Unlike a source's list, a readable file is always complete, so changes are never held: what leaves it is deleted.
Only what came from settings is ever changed or removed. `resources.fleet.declared` reads and writes.
"""

from collections.abc import Iterable, Mapping

import msgspec

from rota.resources.core.records import ResourceRecord, WantedResource, record_of

ORIGIN = "config"
"""Of the resources that came from settings."""


class ResourceDiff(msgspec.Struct, frozen=True):
    """What is to be written."""

    add: tuple[WantedResource, ...]
    change: tuple[ResourceRecord, ...]
    """As they are to be; uid and creation time are what they were."""

    remove: tuple[ResourceRecord, ...]
    left: tuple[str, ...]
    """Declared, but added by others: they stay as they are."""


def differ(stored: Mapping[str, ResourceRecord], wanted: Iterable[WantedResource]) -> ResourceDiff:
    """What to write so that the stored resources, by name, are as declared."""
    declared = {each.name: each for each in wanted}
    ours = {name: record for name, record in stored.items() if record.origin == ORIGIN}
    changed = {
        name: record_of(declared[name], record.uid, record.created, ORIGIN)
        for name, record in ours.items()
        if name in declared
    }
    return ResourceDiff(
        add=tuple(each for name, each in declared.items() if name not in stored),
        change=tuple(record for name, record in changed.items() if record != ours[name]),
        remove=tuple(record for name, record in ours.items() if name not in declared),
        left=tuple(sorted(declared.keys() & (stored.keys() - ours.keys()))),
    )
