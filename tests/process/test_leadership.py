"""Leadership with real processes and real signals, on every store that processes can share."""

from pathlib import Path

import pytest

from tests.kit.harness import HARNESSES, StoreHarness, params
from tests.kit.trials import freeze_the_leader, kill_the_leader
from tests.kit.virtual_trials import freeze_in_memory, kill_in_memory

SHARED = params(kind for kind in HARNESSES if kind.is_shared)


@pytest.mark.parametrize("harness", SHARED, indirect=True)
async def test_another_node_leads_after_the_leader_was_killed(harness: StoreHarness, tmp_path: Path) -> None:
    takeover = await kill_the_leader(harness.url(), tmp_path)
    assert takeover.new != takeover.old


@pytest.mark.parametrize("harness", SHARED, indirect=True)
async def test_no_write_of_a_frozen_leader_is_accepted_once_it_was_deposed(
    harness: StoreHarness, tmp_path: Path
) -> None:
    thaw = await freeze_the_leader(harness.url(), tmp_path)
    assert thaw.new_term > thaw.old_term
    assert thaw.refused >= 50
    assert thaw.accepted == 0


def test_on_the_memory_store_another_node_leads_when_the_lease_has_ended() -> None:
    assert kill_in_memory(ttl=3.0) <= 4.0  # virtual seconds


def test_on_the_memory_store_a_deposed_leader_writes_nothing() -> None:
    assert freeze_in_memory(ttl=3.0) == (0, 50)
