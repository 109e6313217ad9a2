"""The enclosure: a mark on all of the app's processes that they cannot lose, by which daemons they left behind are
found and ended.

A process that the app puts into a session of its own (a daemon) is out of reach of lifelines and process groups. There
are two ways to find it:

- `cgroup`: the node makes a cgroup below its own, with one for each generation and in it one for each worker. What a
  worker leaves behind is killed when the worker is gone; the rest of a generation when it is replaced and its last
  worker is gone; everything when the node stops; and if the agent is killed, the keeper (`runtime.system.keeper`) does
  it. Needs cgroup v2 with `cgroup.kill` (Linux 5.14) and a cgroup of the node's own that it may write to.
- `environment`: each process inherits two variables that name the data folder and the generation. What has them is
  ended when its generation is replaced and has no worker any more, when the node stops, and if the agent was killed,
  when the node starts again (`runtime.system.leftovers`). What was started with an environment of its own, or as
  another user by an agent that is not root, is not found.

Only cgroups that carry the name of this node's data folder are ever touched. Each life of the node has its own, so that
the keeper of an earlier life meets nothing of a later one. No controller is enabled in them: limits on memory and
processors stay those of the cgroup that the node was started in.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from rota.kit.files import private
from rota.runtime.system import keeper, kernel
from rota.runtime.system.confine import Confinement

log = logging.getLogger(__name__)

CGROUP = "cgroup"
ENVIRONMENT = "environment"

GENERATION = "ROTA_NODE_GENERATION"
"""The variable that names the life of the node and the generation."""

LOADER = "loader"
"""The cgroup of a generation's loader, and of attempts, which are too many and too short to have one each."""

NOTE = "cgroup"
"""The file in the data folder that names the cgroup of the last life."""

PROBE = 10.0
"""Seconds for the keeper to show that cgroups can be entered."""

ROUNDS = 10
"""Searches for daemons of a generation at most: those that are found may start others meanwhile."""

LAST = 2.0
"""Seconds to wait for killed processes to be gone when the node stops."""


def own_cgroup(mounts: str, membership: str) -> Path | None:
    """The folder of this process's cgroup v2, by /proc/self/mountinfo and /proc/self/cgroup; None if it has none."""
    place = next((line[3:] for line in membership.splitlines() if line.startswith("0::/")), None)
    for line in mounts.splitlines() if place is not None else ():
        fields, _, more = line.partition(" - ")
        if not more.startswith("cgroup2 "):
            continue
        _, _, _, root, mounted, *_ = fields.split()
        assert place is not None
        if ".." not in place.split("/") and (place == root or place.startswith(root.rstrip("/") + "/")):
            return Path(_unescaped(mounted)) / place[len(root.rstrip("/")) :].strip("/")
    return None


def prefix(home: str) -> str:
    """What the names of all cgroups of a data folder begin with."""
    return f"rota-{hashlib.blake2b(home.encode(), digest_size=8).hexdigest()}-"


def _unescaped(path: str) -> str:
    """A path of mountinfo, where blanks are written in octal."""
    return path.encode().decode("unicode_escape") if "\\" in path else path


class Enclosure:
    """Keeps the app's processes of one life of a node together."""

    def __init__(self, confinement: Confinement | None = None) -> None:
        self.root: Path | None = None
        """The cgroup; None if there is none."""

        self.why_not = ""
        """Why there is no cgroup, if there is none."""

        self.keeper: int | None = None
        """The process id of the keeper."""

        self._confinement = confinement or Confinement()
        self._life = secrets.token_hex(8)
        self._pipe: int | None = None
        self._emptying: set[Path] = set()
        self._generations: set[int] = set()
        self._swept: set[int] = set()
        self._imported: dict[int, list[int]] = {}

    @property
    def way(self) -> str:
        """How the app's daemons are found: `CGROUP` or `ENVIRONMENT`."""
        return ENVIRONMENT if self.root is None else CGROUP

    # The life of a node

    def open(self, home: str, folder: Path) -> None:
        """Kill what earlier lives left in their cgroups, and make a cgroup for this life if this machine allows it."""
        try:
            base = _base()
            _end_earlier(base, home, folder)
            self._make(base, home, folder)
        except OSError as error:
            self.why_not = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        log.info("daemons of the app are found by", extra={"way": self.way, "cgroup": self.root, "why": self.why_not})

    def _make(self, base: Path, home: str, folder: Path) -> None:
        root = base / f"{prefix(home)}{self._life}"
        root.mkdir()
        try:
            with open(folder / NOTE, "w", opener=private) as note:
                note.write(f"{root}\n")
            self._pipe, self.keeper = _started(root)
        except BaseException:
            keeper.remove(str(root), LAST)
            raise
        self.root = root

    def close(self) -> None:
        """Kill what is left, and remove the cgroups of this life; the keeper does what takes longer."""
        if self.root is not None:
            keeper.remove(str(self.root), LAST)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    # What processes are given

    def environment(self, generation: int) -> dict[str, str]:
        """The variables by which processes of a generation are found."""
        return {GENERATION: f"{self._life}.{generation}"}

    def place(self, generation: int) -> str:
        """The folder of a generation's cgroups, created if needed; empty if there is none."""
        self._generations.add(generation)
        self._swept.discard(generation)
        if self.root is None:
            return ""
        folder = self.root / f"g{generation}"
        try:
            folder.mkdir(exist_ok=True)
            if os.geteuid() == 0 and self._confinement.uid > 0:
                # The loader forks as that user, and may move workers within this cgroup, but not out of it.
                for each in (folder, folder / "cgroup.procs"):
                    os.chown(each, self._confinement.uid, self._confinement.gid)
        except OSError as error:
            log.warning("no cgroup for a generation", extra={"generation": generation, "why": error.strerror})
            return ""
        return str(folder)

    # What has ended

    def worker_ended(self, generation: int, worker: int) -> None:
        """Kill the processes that a worker left behind."""
        if self.root is not None:
            folder = self.root / f"g{generation}" / leaf(worker)
            keeper.kill(str(folder))
            if not keeper.removed(str(folder)):
                self._emptying.add(folder)

    def tidy(self, busy: Collection[int], loaders: Mapping[int, int]) -> None:
        """Kill what is left of generations that are not `busy`; of generations with a loader only the daemons of
        workers.

        `loaders` are process ids, by generation: that of the generation to go back to.
        """
        self._emptying = {each for each in self._emptying if not keeper.removed(str(each))}
        for generation in sorted(self._generations.difference(busy)):
            if (loader := loaders.get(generation)) is None:
                self._end_generation(generation)
                self._generations.discard(generation)
            elif generation not in self._swept:
                self._end_daemons(generation, {loader, *self._imported.get(generation, ())})
                self._swept.add(generation)

    def loaded(self, generation: int) -> None:
        """A loader has imported the app. Processes started by the import belong to it, and stay as long as the loader
        may fork."""
        self._imported[generation] = self._members(generation)

    def begin(self, generation: int) -> None:
        """A generation gets a worker: search again for what it leaves behind."""
        self._swept.discard(generation)

    def _end_generation(self, generation: int) -> None:
        if self.root is not None:
            folder = self.root / f"g{generation}"
            keeper.kill(str(folder))
            if not keeper.removed(str(folder)):
                self._emptying.add(folder)
        self._end_daemons(generation, frozenset())
        self._imported.pop(generation, None)

    def _end_daemons(self, generation: int, spared: Collection[int]) -> None:
        """Kill the processes of a generation, except the spared ones and their children."""
        for _ in range(ROUNDS):
            found = [
                pid
                for pid in self._members(generation)
                if pid not in spared and (parent := kernel.parent_of(pid)) is not None and parent not in spared
            ]
            if not found:
                return
            log.info("ending daemons of a generation", extra={"generation": generation, "pids": found})
            kernel.end(found)

    def _members(self, generation: int) -> list[int]:
        """The processes of a generation, found both ways: its loader may have failed to enter the cgroup."""
        found = {kin.pid for kin in kernel.processes_with(GENERATION, self.environment(generation)[GENERATION])}
        if self.root is not None:
            found |= _processes(self.root / f"g{generation}")
        return sorted(found)


def leaf(worker: int) -> str:
    """The name of a worker's cgroup in that of its generation."""
    return f"w{worker}"


def enter(folder: str, name: str) -> None:
    """Move this process into a cgroup of its generation, created if needed; does nothing without a `folder`."""
    if folder:
        place = os.path.join(folder, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
            keeper.enter(place)
        except OSError as error:  # it works as well outside, and is found by its environment
            log.warning("cgroup not entered", extra={"cgroup": place, "why": error.strerror})


def _base() -> Path:
    """The node's own cgroup; OSError says why there is none."""
    if kernel.is_portable():
        raise OSError("ROTA_PORTABLE is set, or this is not Linux")
    found = own_cgroup(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if found is None or not (found / "cgroup.procs").exists():
        raise OSError("cgroup v2 is not mounted, or the node's own cgroup is not below the mount")
    return found


def _end_earlier(base: Path, home: str, folder: Path) -> None:
    """Remove the cgroups of earlier lives, and kill what is in them; the data folder must be locked."""
    earlier = set(base.glob(f"{prefix(home)}*"))
    with contextlib.suppress(OSError, ValueError):
        noted = Path((folder / NOTE).read_text().strip())
        if noted.name.startswith(prefix(home)) and (noted / "cgroup.procs").exists():
            earlier.add(noted)
    for each in sorted(earlier):
        if pids := sorted(_processes(each)):
            log.warning("ending what an earlier life left behind", extra={"pids": pids, "cgroup": each})
        keeper.remove(str(each), LAST)


def _processes(cgroup: Path) -> set[int]:
    """The processes in a cgroup and below."""
    found: set[int] = set()
    for procs in cgroup.glob("**/cgroup.procs"):
        with contextlib.suppress(OSError):
            found.update(map(int, procs.read_text().split()))
    return found


def _started(root: Path) -> tuple[int, int]:
    """A new keeper: the pipe that ends it when closed, and its process id; OSError if it cannot do its work."""
    reading, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(root)],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # signals of a terminal, or to the agent's group, must not reach it
        )
        assert process.stdout is not None
        with process.stdout as said:
            is_there, _, _ = select.select([said], [], [], PROBE)
            answer = os.read(said.fileno(), 4096).decode(errors="replace").strip() if is_there else "no answer"
        if answer != "ok":
            process.kill()
            process.wait()
            raise OSError(answer or "the keeper ended")
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(reading)
    process.returncode = 0  # the agent reaps all its children itself
    return ours, process.pid
