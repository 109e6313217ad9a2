"""The platform, a fleet that holds its rooms, workers that are killed, and the check: `python run.py --help`.

Everything runs in a temporary folder and on free ports; RabbitMQ must be there.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from check import EXCHANGE, make_queue

HERE = Path(__file__).parent
ROTA = Path(sys.executable).with_name("rota")
PATIENCE = 60.0
STARTED = time.monotonic()


def tell(what: str) -> None:
    """A line with its time."""
    print(f"{time.monotonic() - STARTED:5.1f} s  {what}", flush=True)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def rota(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command about the fleet."""
    store = f"sqlite:///{folder}/.rota/up/rota.db"
    argv = [ROTA, *arguments, "--store", store]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def tasks_running(folder: Path) -> int:
    """How many tasks run on all nodes."""
    done = rota(folder, "status", "-o", "json")
    nodes = json.loads(done.stdout)["nodes"] if done.returncode == 0 else []
    return sum(node["work"]["tasks_running"] for node in nodes if node["work"])


def until(condition: Callable[[], bool], what: str, log: Path) -> None:
    """Wait for something; say so if it never comes."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"run: waited in vain until {what}; the fleet said:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)


def hosts(up: int) -> list[psutil.Process]:
    """The workers of the fleet that hold connections."""
    found = psutil.Process(up).children(recursive=True)
    return [each for each in found if title(each).startswith("host")]


def title(process: psutil.Process) -> str:
    """What a process is called; empty if it has ended."""
    try:
        return " ".join(process.cmdline()).strip().removeprefix("rota: ")
    except psutil.Error:
        return ""


def story(folder: Path, up: int, rooms: int, seconds: float, kill_every: float) -> None:
    """What happens."""
    until(lambda: tasks_running(folder) >= 2 * rooms, "all rooms were heard", folder / "log")
    tell(f"{rooms} rooms are heard by {2 * rooms} tasks on two nodes")
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, kill_every))
        if time.monotonic() < end and (alive := hosts(up)):
            victim = random.choice(alive)
            tell(f"kill -9 {victim.pid}, {title(victim)}")
            victim.kill()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Hold the rooms of a platform that is not reliable.")
    parser.add_argument("--amqp", default="amqp://guest:guest@127.0.0.1", help="a RabbitMQ")
    parser.add_argument("--rooms", type=int, default=100)
    parser.add_argument("--rate", type=float, default=2.0, help="messages a second in each room")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between two workers' deaths")
    asked = parser.parse_args()

    make_queue(asked.amqp)
    port = free_port()
    environ = {
        **os.environ,
        "LIVE_PLATFORM": f"ws://127.0.0.1:{port}/rooms",
        "LIVE_SINK": f"{asked.amqp}?exchange={EXCHANGE}",
        "ROTA_SLOTS": str(asked.rooms),  # each of two nodes has a task of each room
    }
    with tempfile.TemporaryDirectory(prefix="rota-live-") as name:
        folder = Path(name)
        shutil.copy(HERE / "app.py", folder)
        platform_argv = [sys.executable, HERE / "live_platform.py", "--port", str(port), "--rooms", str(asked.rooms)]
        up_argv = [ROTA, "up", "app.py", "--nodes", "2"]
        with (folder / "log").open("wb") as log:
            platform, up = (
                subprocess.Popen(argv, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                for argv in ([*platform_argv, "--rate", str(asked.rate)], up_argv)
            )
        try:
            story(folder, up.pid, asked.rooms, asked.seconds, asked.kill_every)
            platform.terminate()
            platform.wait()
            tell("the platform is silent; what is on its way arrives")
            drained = rota(folder, "relay", "drain", "--timeout", "1m")
            tell(drained.stdout.strip().rpartition("\n")[2] or drained.stderr.strip())
            check = [sys.executable, HERE / "check.py", "sent.jsonl", "--amqp", asked.amqp]
            code = subprocess.run(check, cwd=folder, check=False).returncode
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
            platform.kill()
            platform.wait()
    print(f"run: {'nothing that had to arrive is lost' if code == 0 else 'something is wrong'}")
    sys.exit(code)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
