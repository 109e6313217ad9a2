from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.config import NodeConfig, check_node_id
from rota.model.errors import Invalid


@pytest.mark.parametrize("name", ["a", "web-1", "A.b_c", "0", "x" * 63])
def test_good_node_ids(name: str) -> None:
    check_node_id(name)


@pytest.mark.parametrize("name", ["", "-a", "a/b", "a b", "ä", "x" * 64, "..", "/"])
def test_bad_node_ids(name: str) -> None:
    with pytest.raises(Invalid, match="node id"):
        check_node_id(name)


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), timedelta(hours=2), timedelta(seconds=-5)])
def test_a_lease_ttl_nobody_can_keep_is_refused(ttl: timedelta) -> None:
    with pytest.raises(Invalid, match="lease_ttl"):
        NodeConfig(store="memory://", data=Path("x"), lease_ttl=ttl)
