"""What "Call a service" shows is so: its code runs, and its tables name what there is."""

import asyncio
import inspect
import re

import pytest

from rota.client import AsyncServiceClient, ServiceClient
from rota.services.core.codes import Ret
from tests.kit.box_server import BoxServer
from tests.kit.process import ROOT

PAGE = (ROOT / "docs/howto/call-a-service.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("block", "said"), [(0, "{'name': 'Ada'}"), (1, "[0, 1, 2, 3")])
async def test_the_pages_code_runs(block: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with BoxServer() as server:
        code = BLOCKS[block].replace("127.0.0.1:9900", server.address)
        await asyncio.to_thread(exec, compile(code, "call-a-service.md", "exec"), {})
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("client", [ServiceClient, AsyncServiceClient])
def test_every_option_and_call_is_on_the_page(client: type) -> None:
    options = [name for name in inspect.signature(client).parameters if name != "address"]
    calls = [name for name in vars(client) if not name.startswith("_")]
    assert not [name for name in (*options, *calls) if f"`{name}" not in PAGE]


def test_every_code_is_on_the_page() -> None:
    assert not [ret for ret in Ret if f"−{-ret}" not in PAGE]
