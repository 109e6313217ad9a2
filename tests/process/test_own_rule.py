"""A rule from a package of its own, installed beside Rota, changes where things go."""

import subprocess
import sys
from pathlib import Path

import pytest

from rota.model import codec, keys
from rota.resources.core.records import ResourceStatus
from rota.store import Put, Store, open_store
from tests.kit.fleet import ROOMS, resource
from tests.kit.node import NodeUnderTest
from tests.kit.process import ROOT
from tests.kit.waiting import eventually


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's package, as an installer puts it there."""
    target = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--offline"]
    done = subprocess.run(
        [*argv, "--target", target, ROOT / "examples/06-own-rule"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


async def test_a_rule_of_another_package_decides(tmp_path: Path, installed: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    environ = {"PYTHONPATH": str(installed), "ROTA_SUPERVISOR_RULES": "keep-cold"}

    def node(name: str, *labels: str) -> NodeUnderTest:
        flags = [flag for label in labels for flag in ("--label", label)]
        return NodeUnderTest(
            tmp_path / name, "--role", "both", *flags, name=name, app=ROOMS, store=url, environ=environ
        )

    with node("gold", "tier=gold", "price=0.9") as gold, node("cheap", "price=0.1") as cheap:
        await gold.ready()
        await cheap.ready()
        async with open_store(url) as store:
            await eventually(lambda: _both_are_known(store))
            for number, listeners in enumerate((5, 5000)):
                record = resource("room", str(number), replicas=1, spec={"listeners": listeners})
                await store.commit(Put(keys.resource("room", str(number)), codec.encode(record)))
            cold, hot = await _status(store, "0"), await _status(store, "1")
            assert cold.AssignedNode.startswith(f"{cheap.name}|")
            record = resource("room", "2", replicas=2, spec={"listeners": 5})
            await store.commit(Put(keys.resource("room", "2"), codec.encode(record)))
            short = await _status(store, "2")
    assert hot.assigned == 1
    assert short.assigned == 1
    assert short.refusals[gold.name] == "rule keep-cold: it is for rooms with 100 listeners or more"


async def test_a_rule_that_is_not_installed_is_refused_by_name(tmp_path: Path) -> None:
    node = NodeUnderTest(tmp_path / "n", name="n", app=ROOMS, environ={"ROTA_SUPERVISOR_RULES": "keep-cold"})
    with node:
        await eventually(lambda: not node.is_running)
        assert 'there is no rule "keep-cold"; no package here offers any' in node.complaint()


async def _both_are_known(store: Store) -> bool:
    return len((await store.scan(keys.STATUS)).entries) == 2


async def _status(store: Store, id: str) -> ResourceStatus:
    entry = await eventually(lambda: store.get(keys.resource_status("room", id)))
    return codec.decode(ResourceStatus, entry.value)
