"""The documents do what they say: their files are written and their commands are run, page by page (`tests/kit/pages`).

Addresses that a page makes up, of servers and of services, are exchanged for such as there are here.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.harness import EtcdHarness, PostgresHarness, StoreHarness
from tests.kit.pages import blocks
from tests.kit.process import ROOT
from tests.kit.reader import Reader
from tests.kit.server_pool import ServerPool
from tests.kit.servers import free_port

PAGES = sorted(page for page in ROOT.glob("docs/**/*.md") if any(block.mode for block in blocks(page)))
PORTS = ("9900",)
"""Ports that pages use; here they may be taken."""

STORES: dict[str, type[StoreHarness]] = {
    "postgresql://rota@db.example/rota": PostgresHarness,
    "etcd://etcd.example": EtcdHarness,
}
"""Stores that pages make up."""


def made_up(page: Path) -> list[str]:
    """The stores that a page makes up."""
    run = "".join(block.text for block in blocks(page) if block.mode)
    return [there for there in STORES if there in run]


def marked(page: Path) -> Any:
    """A page, with the servers it needs."""
    marks = [pytest.mark.needs(STORES[there].backend) for there in made_up(page)]
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT / "docs")))


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_page_does_what_it_says(page: Path, tmp_path: Path, servers: ServerPool) -> None:
    exchanged = {port: str(free_port()) for port in PORTS}
    for there in made_up(page):
        kind = STORES[there]
        assert kind.server is not None
        exchanged[there] = kind(tmp_path, servers.get(kind.server, "steady")).url()
    with Reader(tmp_path, exchanged) as reader:
        for block in blocks(page):
            reader.follow(block)
