"""The original: burst 3.1.38 as released, with a small app. What Rota takes the place of is asked in the same words.

cmd 1 answers with its body, 2 notes that it was asked and answers nothing, 3 raises, 4 ends its worker without a word.
"""

import sys
from pathlib import Path

from rota.client import ServiceClient
from rota.model.errors import RotaError
from tests.kit.servers import Server, free_port

APP = """
import os
import sys

from burst import Burst

app = Burst()
app.config.update(
    NAME={name!r},
    GROUP_LIST=[{{"id": 1, "count": {workers}}}],
    IPC_ADDRESS_DIRECTORY={sockets!r},
    UDP=True,
)


@app.route(1)
def echo(request):
    return {{"ret": 0, "body": request.box.body}}


@app.route(2)
def nothing(request):
    with open({notes!r}, "a") as notes:
        notes.write("asked\\n")
    return None


@app.route(3)
def fail(request):
    raise ValueError("on purpose")


@app.route(4)
def leave(request):
    os._exit(1)


app.run(host="127.0.0.1", port={port})
"""


class Burst(Server):
    """A burst server with one group of workers, over TCP and UDP."""

    def __init__(self, base: Path, *, workers: int = 2) -> None:
        port = free_port()
        script = base / "burst_app.py"
        sockets = base / "socks"
        sockets.mkdir(exist_ok=True)
        self._notes = base / "notes"
        told = {"name": f"burst{port}", "workers": workers, "sockets": str(sockets), "notes": str(self._notes)}
        script.write_text(APP.format(port=port, **told))
        super().__init__([sys.executable, script], base, "burst", port)

    def asked_nothing(self) -> int:
        """How often cmd 2 was asked."""
        return len(self._notes.read_text().splitlines()) if self._notes.exists() else 0

    def is_ready(self) -> bool:
        """Whether a worker answers."""
        try:
            with ServiceClient(f"127.0.0.1:{self.port}", timeout="2s", size=1) as client:
                return client.call(1, b"ready?").body == b"ready?"
        except RotaError:
            return False
