"""Very many resources and real leaders, tried with few: everything is placed, and one leader is enough."""

from pathlib import Path

from tests.kit.multitude import place_a_multitude


async def test_one_leader_places_everything_though_nodes_are_killed_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    seen = await place_a_multitude(tmp_path, url, 600, leaders=2, records=3, ttl="30s")
    assert seen.terms == 1
    assert seen.least + seen.most == 600
    assert seen.moved > 0


async def test_real_workers_run_everything_though_one_dies_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    seen = await place_a_multitude(tmp_path, url, 300, leaders=1, records=1, workers=2, ttl="30s")
    assert seen.terms == 1
    assert seen.least + seen.most == 300
