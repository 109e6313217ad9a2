"""What a fleet said, on a real terminal: nothing in it moves the cursor, sets the title or hides what follows."""

import json
import os
import pty
import subprocess
from pathlib import Path

from rota.model import keys
from rota.store import open_store
from tests.kit.cli import ROTA, rota
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

TITLE = "\x1b]0;PWN\x07"
APP = """
import rota

app = rota.App("painter")


@app.job()
def paint(run: rota.Run) -> None:
    print("\\x1b[32mgreen\\x1b[0m \\x1b]0;PWN\\x07")
"""


def on_a_terminal(*words: object) -> str:
    """What a command prints whose stdout is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([ROTA, *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # how Linux says that nobody has the terminal open any more
            pass
        os.close(ours)
        assert process.wait() == 0, said
    return said.decode()


async def test_nothing_that_others_wrote_reaches_a_terminal_but_colours_of_runs(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "n", "--role", "both", app=APP) as node:
        await node.ready()
        async with open_store(node.store) as store:
            await eventually(lambda: store.get(keys.job("paint")))
        on_store = ("--store", node.store)
        script = "printf '\\033]0;PWN\\007' >&2; exit 3"
        assert (
            rota("hooks", "add", "evil", "--on", "node.*", *on_store, "--", "sh", "-c", script, cwd=tmp_path).code == 0
        )
        tried = rota("hooks", "test", "evil", *on_store, cwd=tmp_path)
        assert (tried.code, TITLE in tried.err, "\\x1b]0;PWN\\x07" in tried.err) == (7, False, True)
        for words in (("hooks", "ls"), ("events",), ("audit", "--changes"), ("status",)):
            assert "\x1b]" not in on_a_terminal(*words, *on_store), words
        assert "\\x1b]0;PWN\\x07" in on_a_terminal("hooks", "ls", *on_store)
        run = json.loads(rota("jobs", "run", "paint", *on_store, "-o", "json", cwd=tmp_path).out)["id"]
        assert on_a_terminal("runs", "logs", run, *on_store).startswith("\x1b[32mgreen\x1b[0m \\x1b]0;PWN\\x07\r\n")
        assert TITLE in on_a_terminal("runs", "logs", "--raw", run, *on_store)
        assert TITLE in rota("runs", "logs", run, *on_store, cwd=tmp_path).out, "a pipe gets every byte"
