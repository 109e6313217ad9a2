"""Jobs on a fleet of real nodes, one of which is killed: every due time is accounted for."""

from pathlib import Path

from tests.kit.job_storm import storm, storm_fleet


async def test_every_due_time_runs_once_though_a_node_is_killed(tmp_path: Path) -> None:
    async with storm_fleet(tmp_path, f"sqlite:///{tmp_path}/rota.db", 5, "--executors", 2) as fleet:
        account = await storm(fleet, 12, kill_every=5)
    assert account.kills >= 1
    assert account.due >= 5 * 10
    assert account.unaccounted == account.doubled == []
    assert account.once + account.again + account.missed == account.due
