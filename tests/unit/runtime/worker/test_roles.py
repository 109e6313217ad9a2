"""Every role is done by a function that there is."""

import pytest

from rota.runtime.pipes.brief import Attempt, Brief
from rota.runtime.worker.roles import PROGRAM, ROLES, WorkerRole, import_all, named, role_of


@pytest.mark.parametrize("role", [pytest.param(role, id=name) for name, role in ROLES.items()])
def test_every_name_is_a_function(role: WorkerRole) -> None:
    assert all(callable(named(name)) for name in (role.body, role.about, role.prepare) if name)


def test_all_can_be_imported_before_a_fork() -> None:
    import_all()


def test_a_brief_has_the_role_it_names_unless_it_is_for_a_program() -> None:
    brief = Brief(worker=1, role="run", pool="run", slot=0, generation=1, node="a", attempt=Attempt("r", 1, "j"))
    assert role_of(brief) is ROLES["run"]
    command = Attempt("r", 1, "j", argv=("true",))
    assert role_of(Brief(1, "run", "run", 0, 1, "a", attempt=command)) is ROLES[PROGRAM]
