"""State machines are tables: each is sound and drawn in the manual, and nothing but its module sets the phase."""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from rota.kit.transitions import Transitions
from scripts.reference import diagrams
from tests.kit import source


class Machine(NamedTuple):
    """What has phases, and who may set them."""

    record: str
    field: str
    home: str
    """The module with the table."""

    known: str
    """Whoever has to do with the record imports from a module that begins like this."""

    @property
    def table(self) -> Transitions[Any, Any]:
        found: Transitions[Any, Any] = import_module(self.home).TABLE
        return found


MACHINES = {
    "run": Machine("RunRecord", "state", "rota.jobs.core.run_phases", "rota.jobs.core.records"),
    "attempt": Machine("OwnedAttempt", "phase", "rota.jobs.core.attempt_phases", "rota.jobs.core.attempt_phases"),
    "group": Machine("Group", "phase", "rota.streams.core.group_phases", "rota.streams.core.records"),
    "message": Machine("HeldMessage", "phase", "rota.relay.core.held_phases", "rota.relay.core.held"),
}


def modules(word: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of Rota with a word in its text, by its name."""
    for file, module in source.modules().items():
        if word in source.text(file):
            yield ".".join(file.relative_to("src").with_suffix("").parts), module


def name_of(called: ast.expr) -> str:
    """The last part of what is called."""
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What an assignment assigns to, also as one of several."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield node.target


def is_step(node: ast.AST) -> bool:
    """Is it an assignment of the phase after an event, as the table has it: `held.phase = AFTER_TAKEN[held.phase]`?"""
    values = [value for value in ast.walk(node) if isinstance(value, ast.Subscript)]
    return any(name_of(value.value).startswith("AFTER_") for value in values)


def settings(machine: Machine, module: ast.Module) -> list[int]:
    """The lines of a module that set the phase of such a record; those that only take a step are left out."""
    froms = [node.module or "" for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    if not any(each.startswith(machine.known) for each in froms):
        return []
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and name_of(node.func) in ("replace", machine.record):
            found += [node.lineno for keyword in node.keywords if keyword.arg == machine.field]
        for target in targets(node):
            if isinstance(target, ast.Attribute) and target.attr == machine.field and not is_step(node):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("name", MACHINES)
def test_a_table_is_total_reachable_and_without_traps(name: str) -> None:
    assert MACHINES[name].table.faults() == []


def test_every_table_is_known_here_and_drawn_in_the_manual() -> None:
    here = {name for name, module in modules("Transitions") if "TABLE = Transitions" in ast.unparse(module)}
    assert here == {machine.home for machine in MACHINES.values()}
    drawn = [block for blocks in diagrams().values() for block in blocks]
    assert all(any(machine.table.diagram() in block for block in drawn) for machine in MACHINES.values())


@pytest.mark.parametrize("name", MACHINES)
def test_only_the_table_sets_a_phase(name: str) -> None:
    machine = MACHINES[name]
    guilty = {module: lines for module, tree in modules(machine.known) if (lines := settings(machine, tree))}
    makers = {"rota.relay.core.held"} if machine.record == "HeldMessage" else set()
    assert guilty.keys() - {machine.home} == makers, guilty  # a message is made in its first phase


def test_a_message_is_made_in_a_first_phase() -> None:
    first = {phase.name for phase in MACHINES["message"].table.first}
    for name, module in modules("HeldMessage"):
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and name_of(call.func) == "HeldMessage":
                given = {name_of(each) for each in call.args if ast.unparse(each).startswith("HeldPhase.")}
                assert given <= first, name


@pytest.mark.parametrize(
    "line",
    [
        "replace(run, state=RunState.LOST)",
        "msgspec.structs.replace(run, why='', state=RunState.LOST)",
        "RunRecord(id='x', state=RunState.LOST)",
        "run.state = RunState.LOST",
        "run.why, run.state = '', RunState.LOST",
    ],
)
def test_whoever_sets_a_phase_is_found(line: str) -> None:
    module = ast.parse(f"from rota.jobs.core.records import RunRecord\n{line}")
    assert settings(MACHINES["run"], module) == [2]
    assert settings(MACHINES["run"], ast.parse(line)) == [], "it has nothing to do with runs"


def test_a_step_of_the_table_is_no_setting() -> None:
    module = ast.parse("from rota.relay.core.held import HeldMessage\nheld.phase = AFTER_TAKEN[held.phase]")
    assert settings(MACHINES["message"], module) == []
