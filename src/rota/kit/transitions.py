"""Transitions: which phases a thing has, and which event leads from each to which.

A state machine is one `Transitions` in a module of its own, and nothing else sets the phase. `after` is the next phase;
it raises IllegalTransition for what the table does not have. `by` has the same for one event as a plain dict, for where
every nanosecond counts: there it is a KeyError. `faults` says what is wrong with a table, for the test that reads all
of them; `diagram` draws it, for the manual. The phase None is that of a thing which no longer exists.

A rule that does not fit into a table, such as one about time, stays beside it.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Generic, TypeVar

FEW = 3
"""The most final phases that are drawn apart; more of them are drawn as one box."""


class IllegalTransition(Exception):
    """An event that the phase does not allow: a bug, and never the answer to a caller."""

    def __init__(self, event: Enum, phase: Enum | None) -> None:
        super().__init__(f"{event!r} cannot happen in {phase!r}")


P = TypeVar("P", bound=Enum | None)
E = TypeVar("E", bound=Enum)


class Transitions(Generic[P, E]):
    """One state machine."""

    def __init__(self, table: Mapping[P, Mapping[E, P]], *, first: Collection[P], final: Collection[P]) -> None:
        """`first`: the phases that it begins in; `final`: those that it ends in."""
        self.table, self.first, self.final = table, first, final

    def after(self, phase: P, event: E) -> P:
        """The phase after `event`."""
        try:
            return self.table[phase][event]
        except KeyError:
            raise IllegalTransition(event, phase) from None

    def allows(self, phase: P, event: E) -> bool:
        """Can `event` happen in this phase?"""
        return event in self.table[phase]

    def by(self, event: E) -> dict[P, P]:
        """Phase → the next phase for `event`; a phase that does not allow it is missing, and raises KeyError."""
        return {phase: row[event] for phase, row in self.table.items() if event in row}

    def faults(self) -> list[str]:
        """What is wrong with the table: nothing if it is total, every phase is reached, and none is a trap."""
        ways = {phase: set(row.values()) for phase, row in self.table.items()}
        back = {phase: {before for before, after in ways.items() if phase in after} for phase in ways}
        reached, ending = _closure(self.first, ways), _closure(self.final, back)
        used = {event for row in self.table.values() for event in row}
        return [
            *(f"{phase!r} has no row" for phase in _all_like(self.table) if phase not in ways),
            *(f"{event!r} never happens" for event in _all_like(used) if event not in used),
            *(f"{phase!r} is never reached" for phase in ways if phase not in reached),
            *(f"{phase!r} is a trap" for phase in ways if phase not in ending),
            *(f"{phase!r} is final and goes on" for phase in self.final if ways[phase] - {phase}),
        ]

    def diagram(self) -> str:
        """The table as a state diagram in the language of Mermaid."""
        over = self.final if len(self.final) > FEW else ()
        lines = [_declared(phase) for phase in self.table if phase not in over and " " in _name(phase)]
        if over:
            lines += ["state over {", *(f"    {_declared(phase)}" for phase in over), "}"]
        lines += [f"[*] --> {_id(phase)}" for phase in self.first]
        for phase, row in self.table.items():
            arrows: dict[str, list[str]] = {}
            for event, to in row.items():
                where, label = ("over", _outcome(event, to)) if to in over else (_id(to), _name(event))
                arrows.setdefault(where, []).append(label)
            lines += [f"{_id(phase)} --> {where}: {', '.join(labels)}" for where, labels in arrows.items()]
        lines += ["over --> [*]"] if over else [f"{_id(phase)} --> [*]" for phase in self.final if phase is not None]
        return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in lines)])


def _all_like(some: Collection[Enum | None]) -> list[Enum]:
    """Every member of the enumeration that these values belong to."""
    return list(type(next(each for each in some if each is not None)))


def _closure(start: Collection[P], ways: Mapping[P, set[P]]) -> set[P]:
    """Everything reachable from a start by these edges, in any number of steps."""
    found, left = set(start), list(start)
    while left:
        fresh = ways.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    return found


def _name(each: Enum | None) -> str:
    return "[*]" if each is None else each.name.lower().replace("_", " ")


def _id(phase: Enum | None) -> str:
    return _name(phase).replace(" ", "_")


def _declared(phase: Enum | None) -> str:
    return f'state "{_name(phase)}" as {_id(phase)}' if " " in _name(phase) else _id(phase)


def _outcome(event: Enum, to: Enum | None) -> str:
    """The name of an event that leads into a box, with the phase in it if that is named otherwise."""
    return _name(event) if _name(to) == _name(event) else f"{_name(event)} ({_name(to)})"
