"""An app on two nodes: a worker dies, new code comes, broken code comes, and the work goes on.

`rota up` runs the fleet in a temporary folder; everything else is done with the commands you would type.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).parent
ROTA = Path(sys.executable).with_name("rota")
PATIENCE = 30.0
STARTED = time.monotonic()


def tell(what: str) -> None:
    """A line with its time."""
    print(f"{time.monotonic() - STARTED:5.1f} s  {what}", flush=True)


def rota(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command, and show it."""
    done = subprocess.run([ROTA, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    shown = (done.stdout + done.stderr).strip().splitlines()
    tell(f"$ rota {' '.join(arguments)}   (exit {done.returncode})")
    for line in shown[:3]:
        print(f"         {line}", flush=True)
    return done


def look(folder: Path) -> list[dict[str, Any]]:
    """What the nodes run, as the store has it."""
    store = f"sqlite:///{folder}/.rota/up/rota.db"
    done = subprocess.run([ROTA, "status", "--store", store, "-o", "json"], capture_output=True, text=True, check=False)
    nodes: list[dict[str, Any]] = msgspec.json.decode(done.stdout)["nodes"] if done.returncode == 0 else []
    return nodes


def until(folder: Path, condition: Callable[[list[dict[str, Any]]], bool], what: str) -> None:
    """Wait for the fleet to show something; say so if it never does."""
    end = time.monotonic() + PATIENCE
    while not condition(look(folder)):
        if time.monotonic() > end:
            raise SystemExit(
                f"demo: waited in vain until {what}; the fleet said:\n{(folder / 'log').read_text()[-2000:]}"
            )
        time.sleep(0.1)


def is_manned(nodes: list[dict[str, Any]], workers: int) -> bool:
    """Do two nodes have that many workers each, all ready?"""
    ready = [sum(pool["ready"] for pool in node["work"]["pools"]) for node in nodes if node["work"]]
    return ready == [workers, workers]


def a_worker(folder: Path) -> int:
    """The process id of a service worker of the first node."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0]) for line in listed.splitlines() if "rota: service" in line and " of n1" in line)


def story(folder: Path) -> None:
    """What happens."""
    app = folder / "app.py"
    until(folder, lambda nodes: is_manned(nodes, 4), "both nodes had their four workers")
    tell("two nodes run the app: two workers of group 1, one of group 2, and an executor on each")

    victim = a_worker(folder)
    os.kill(victim, signal.SIGKILL)
    tell(f"kill -9 {victim}, a worker of n1: its place is taken at once")

    code = app.read_text()
    app.write_text(code.replace("groups={1: 2, 2: 1}", "groups={1: 3, 2: 1}"))
    tell("new code: group 1 gets a third worker")
    rota(folder, "reload")
    until(folder, lambda nodes: is_manned(nodes, 5), "the new generation was there")

    app.write_text(code + "\nimport a_module_that_nobody_has\n")
    tell("broken code: an import that fails")
    assert rota(folder, "reload", "--id", "n1").returncode != 0
    until(folder, lambda nodes: is_manned(nodes, 5), "the old generation served on")
    tell("nothing happened: the generation before keeps running")

    rota(folder, "rollback")
    until(folder, lambda nodes: is_manned(nodes, 4), "the first generation was back")
    tell("back at the first generation, without reading a file")


def main() -> None:
    """The demo."""
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as name:
        folder = Path(name)
        shutil.copy(HERE / "app.py", folder)
        with (folder / "log").open("wb") as log:
            argv = [ROTA, "up", "app.py", "--nodes", "2"]
            up = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            story(folder)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
    print("demo: a dead worker, new code, broken code and the way back; every post was manned all the time")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
