"""A reader who does what a page of the documentation says."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.kit.cli import ROTA
from tests.kit.pages import Block, Command
from tests.kit.process import Process
from tests.kit.servers import wait_until

PATIENCE = 120.0
"""Seconds that something a page promises may take here."""


ONE = 120.0
"""Seconds that one command may take."""


class Reader:
    """Somebody who does what a page says, in an empty folder."""

    def __init__(
        self,
        folder: Path,
        exchanged: Mapping[str, str],
        environ: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self._before = before  # each command, if it runs elsewhere
        self._folder, self._exchanged = folder, exchanged
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self._environ |= {"PATH": f"{ROTA.parent}:{os.environ['PATH']}", "HOME": str(folder)}
        self._environ |= environ or {}
        self._kept, self._count = ExitStack(), 0

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        block = Block(block.words, self._here(block.text))
        if block.file:
            (self._folder / block.file).write_text(block.text)
        for command in block.commands() if block.mode else ():
            if command.typed.startswith("export "):
                name, _, value = command.typed.removeprefix("export ").partition("=")
                self._environ[name] = value
            else:
                getattr(self, block.mode)(command)

    def run(self, command: Command) -> None:
        """It prints what is shown, and ends well."""
        done = self._type(command)
        assert done.returncode == 0, _told(done)
        assert _is_shown(command, done), _told(done)

    def until(self, command: Command) -> None:
        """It prints what is shown, by and by."""
        end = time.monotonic() + PATIENCE
        while not _is_shown(command, done := self._type(command)):
            assert time.monotonic() < end, _told(done)

    def keep(self, command: Command) -> None:
        """It runs until the page ends, and what is shown comes."""
        argv = [*self._before, "sh", "-c", f"cd '{self._folder}' && exec {command.typed}"]
        self._count += 1
        process = Process(argv, self._folder / f"kept{self._count}.out", environ=self._environ)
        self._kept.enter_context(process)

        def has_come() -> bool:
            printed = process.output.read_text() + process.errors.read_text()
            assert process.is_running, f"$ {command.typed}\n{printed}"
            return command.is_within(printed)

        wait_until(has_come, command.typed, within=PATIENCE)

    def _type(self, command: Command) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._before, "bash", "-c", command.typed],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ONE,
            check=False,
        )

    def _here(self, text: str) -> str:
        for there, here in self._exchanged.items():
            text = text.replace(there, here)
        return text


def _is_shown(command: Command, done: "subprocess.CompletedProcess[str]") -> bool:
    """Is it what the page shows? Some commands answer on stderr; most say there only how far they are."""
    return command.explains(done.stdout) or command.explains(done.stdout + done.stderr)


def _told(done: "subprocess.CompletedProcess[str]") -> str:
    return f"$ {done.args[-1]}\n{done.stdout}{done.stderr}"
