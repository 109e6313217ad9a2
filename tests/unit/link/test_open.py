"""Opening by address: unknown schemes, the missing extra, and what is imported when."""

import subprocess
import sys
from datetime import timedelta

import pytest

from rota.link import LinkSettings, open_link, serve_link
from rota.model.errors import Invalid
from tests.kit.link_server import Desk


async def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(Invalid, match="unknown scheme smoke; Rota speaks grpc://, memory://"):
        async with open_link("smoke://a:1"):
            pass


async def test_a_link_to_port_0_leads_nowhere() -> None:
    with pytest.raises(Invalid, match="port 0 is nowhere"):
        async with open_link("grpc://a:0"):
            pass


async def test_without_the_extra_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rota.link.grpc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(Invalid, match=r"needs grpc, which is not installed; pip install 'rota\[grpc\]'"):
        async with serve_link("grpc://127.0.0.1:0", Desk()):
            pass


def test_the_port_is_imported_without_grpc() -> None:
    code = "import sys, rota.link; print('grpc' in sys.modules, 'google.protobuf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"check": timedelta()}, "link.check is 0:00:00"),
        ({"read_log": timedelta(seconds=-1)}, "link.read_log"),
        ({"first_reconnect": timedelta(seconds=2)}, "must not be longer"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(Invalid) as error:
        LinkSettings(**settings)  # type: ignore[arg-type]
    assert why in str(error.value)
