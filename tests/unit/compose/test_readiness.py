"""Why a node should be given nothing new: one true sentence, and nothing that only follows from it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rota.compose.doors import UNMANNED, check_readiness
from rota.compose.state import NodeState
from rota.doors.health import HealthChecks
from rota.kit.time.clock import SYSTEM


@pytest.mark.parametrize(
    ("session", "store", "is_ready", "is_listening", "reasons"),
    [
        pytest.param(
            None,
            None,
            False,
            True,
            ["not in the fleet: the store was not reached yet, or another node has this id"],
            id="start",
        ),
        pytest.param(
            None,
            "there",
            False,
            True,
            ["not in the fleet: its session ended, as when the store is away for longer than lease_ttl"],
            id="the store is away",
        ),
        pytest.param("session", "there", False, True, [UNMANNED], id="workers"),
        pytest.param("session", "there", True, False, ["till does not listen"], id="services"),
        pytest.param("session", "there", True, True, [], id="ready"),
    ],
)
def test_readiness_names_what_is_in_the_way_and_not_what_follows_from_it(
    session: Any, store: Any, is_ready: bool, is_listening: bool, reasons: list[str]
) -> None:
    crew = SimpleNamespace(is_settled=lambda: is_ready)
    services = SimpleNamespace(not_listening=lambda: {} if is_listening else {"till": "till does not listen"})
    runtime = SimpleNamespace(crew=crew, services=services, is_draining=False)
    state = SimpleNamespace(session=session, store=store, runtime=runtime)
    health = HealthChecks(SYSTEM)
    check_readiness(health, cast(NodeState, state))
    verdict = health.ready()
    assert verdict.is_well is (not reasons)
    assert list(verdict.reasons.values()) == reasons
