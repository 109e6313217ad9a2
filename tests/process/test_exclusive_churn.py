"""Exclusive work on real nodes: never twice at a time, though resources go and come back and a node is killed."""

from pathlib import Path

from tests.kit.exclusive_churn import churn, robots


async def test_exclusive_work_never_overlaps_when_its_resource_is_removed_and_added_again(tmp_path: Path) -> None:
    async with robots(tmp_path, f"sqlite:///{tmp_path}/rota.db", ttl="10s") as fleet:
        seen = await churn(fleet, 3, whats=["remove and add elsewhere", "cordon and uncordon", "kill"])
    assert seen.overlaps == []
    assert sum(seen.done.values()) == 3
    assert seen.lives >= 5
