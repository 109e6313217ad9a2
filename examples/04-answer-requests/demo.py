"""A service that answers, and one that answers nothing and pushes: the app, the forwarder and three clients, for real.

`rota up` runs the app in a temporary folder, on free ports.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from client import LOGIN, SAY, Mouth, listening

from rota.client import AsyncServiceClient, ServiceClient

HERE = Path(__file__).parent
ROTA = Path(sys.executable).with_name("rota")
STARTED = time.monotonic()


def tell(what: str) -> None:
    """A line with its time."""
    print(f"{time.monotonic() - STARTED:5.1f} s  {what}", flush=True)


def free_port() -> str:
    """A port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return str(sock.getsockname()[1])


async def story(service: str, forwarder: str) -> None:
    """What happens."""
    # The client waits for a service that is just starting, so nobody else has to.
    async with AsyncServiceClient(f"127.0.0.1:{service}", timeout="30s") as logic:
        ada, bob = Mouth("Ada", logic), Mouth("Bob", logic)
        tell(f"group 1 answers: {await ada.login()}; {await bob.login()}")

        async with listening(int(forwarder)) as first, listening(int(forwarder)) as second:
            tell(f"two clients listen at the forwarder, 127.0.0.1:{forwarder}")
            await ada.say("is anybody here?")
            heard = await asyncio.wait_for(asyncio.gather(first.hear(), second.hear()), 10)
            tell(f"group 2 answers nothing; both hear: {heard[0]}")
            assert heard == ["Ada: is anybody here?"] * 2, heard

            await bob.say("I am")
            assert await asyncio.wait_for(second.hear(), 10) == "Bob: I am"
            tell("and Bob is heard too")

        refused = await logic.call(SAY, "x" * 2000)
        tell(f"what is too long never reaches a handler: ret {refused.ret}")
        assert refused.ret == 1, refused

    tell(f"the same service by UDP, from a thread: {await asyncio.to_thread(login_by_udp, service)}")


def login_by_udp(service: str) -> str:
    """What the service answers."""
    with ServiceClient(f"udp://127.0.0.1:{service}") as client:
        return client.call(LOGIN, json={"name": "Eve"}).raise_for_ret().body.decode()


def main() -> None:
    """The demo."""
    ports = free_port(), free_port()
    environ = {**os.environ, "CHAT_PORT": ports[0], "FORWARDER_PORT": ports[1]}
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as name:
        folder = Path(name)
        for file in ("app.py", "chat.py", "forwarder.py"):
            shutil.copy(HERE / file, folder)
        with (folder / "log").open("wb") as log:
            forwarder, up = (
                subprocess.Popen(argv, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                for argv in ([sys.executable, "forwarder.py", ports[1]], [ROTA, "up", "app.py", "--nodes", "1"])
            )
        try:
            asyncio.run(story(*ports))
        except Exception:
            print((folder / "log").read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
            forwarder.terminate()
            forwarder.wait()
    print("demo: two groups, one that answers and one that pushes through a forwarder, over TCP and UDP")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
