"""A log that grows, a fleet that reads it, workers that are killed, and the proof: `python run.py --help`.

Everything runs in a temporary folder.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

HERE = Path(__file__).parent
ROTA = Path(sys.executable).with_name("rota")
PATIENCE = 60.0
STARTED = time.monotonic()


def tell(what: str) -> None:
    """A line with its time."""
    print(f"{time.monotonic() - STARTED:5.1f} s  {what}", flush=True)


def rota(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command about the fleet."""
    argv = [ROTA, *arguments, "--store", f"sqlite:///{folder}/.rota/up/rota.db"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def readers(up: int) -> list[psutil.Process]:
    """The workers of the fleet that read the stream."""
    found = psutil.Process(up).children(recursive=True)
    return [each for each in found if "stream:clicks" in title(each)]


def title(process: psutil.Process) -> str:
    """What a process is called; empty if it has ended."""
    try:
        return " ".join(process.cmdline()).strip().removeprefix("rota: ")
    except psutil.Error:
        return ""


def until_it_reads(folder: Path) -> None:
    """Wait until four workers read; say so if they never do."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = rota(folder, "streams", "status", "clicks", "-o", "json")
        groups = json.loads(done.stdout)["groups"] if done.returncode == 0 else []
        if sum(task["state"] == "reading" for group in groups for task in group["tasks"]) >= 4:
            return
        time.sleep(0.5)
    raise SystemExit(f"run: waited in vain for readers; the fleet said:\n{(folder / 'said').read_text()[-2000:]}")


def story(folder: Path, up: int, seconds: float, kill_every: float) -> int:
    """What happens; the exit code."""
    until_it_reads(folder)
    tell("two groups of two workers read the log")
    produce = [sys.executable, HERE / "produce.py", "--seconds", str(seconds)]
    clicks = subprocess.Popen(produce, stdout=subprocess.PIPE)
    appending = subprocess.Popen([ROTA, "log", "append", f"log://{folder}/clicks?fsync=1s"], stdin=clicks.stdout)
    while clicks.poll() is None:
        time.sleep(min(kill_every, seconds))
        if alive := readers(up):
            victim = random.choice(alive)
            tell(f"kill -9 {victim.pid}, {title(victim)}")
            victim.kill()
    appending.wait()
    tell("nobody clicks any more; what was read is published")
    tell(rota(folder, "streams", "suspend", "clicks", "--timeout", "1m").stdout.strip())
    proof = rota(folder, "streams", "verify", "clicks", "--by", "part,number")
    print(proof.stdout, proof.stderr, sep="", end="")
    print(rota(folder, "streams", "read", "clicks", "--limit", "3", "--format", "csv").stdout, end="")
    return proof.returncode


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Read a log into Parquet files, while readers are killed.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds between two workers' deaths")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-streams-") as name:
        folder = Path(name)
        shutil.copy(HERE / "app.py", folder)
        subprocess.run([ROTA, "log", "create", f"log://{folder}/clicks", "--partitions", "4"], check=True)
        with (folder / "said").open("wb") as said:
            up = subprocess.Popen(
                [ROTA, "up", "app.py", "--nodes", "3"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            code = story(folder, up.pid, asked.seconds, asked.kill_every)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
    print(f"run: {'every click is there once' if code == 0 else 'something is wrong'}")
    sys.exit(code)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
