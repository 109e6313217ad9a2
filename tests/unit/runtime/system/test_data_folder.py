import subprocess
import sys
from pathlib import Path

import pytest

from rota.model.errors import Conflict, Invalid
from rota.model.ids import NodeId
from rota.runtime.system import data_folder

HOLD = """
import sys
from pathlib import Path
from rota.runtime.system import data_folder
with data_folder.hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_folder_remembers_its_home_and_its_node(tmp_path: Path) -> None:
    with data_folder.hold(tmp_path / "a") as first:
        home, name = first.home, first.node_id(None)
    with data_folder.hold(tmp_path / "a") as second:
        assert (second.home, second.node_id(None)) == (home, name)


def test_two_folders_have_two_homes(tmp_path: Path) -> None:
    with data_folder.hold(tmp_path / "a") as one, data_folder.hold(tmp_path / "b") as other:
        assert one.home != other.home


def test_a_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    with data_folder.hold(tmp_path) as folder:
        folder.node_id(NodeId("ann"))
        with pytest.raises(Invalid, match='belongs to node "ann"'):
            folder.node_id(NodeId("bob"))


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=f"in use by pid {holder.pid}"), data_folder.hold(tmp_path):
            pass
        holder.kill()
        holder.wait()
        with data_folder.hold(tmp_path):
            pass


def test_a_folder_that_others_could_enter_is_narrowed_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wide = tmp_path / "a"
    wide.mkdir()
    wide.chmod(0o711)  # as an older Rota left it
    with data_folder.hold(wide):
        assert wide.stat().st_mode & 0o777 == 0o700
    assert [record.message for record in caplog.records] == ["others could enter the data folder, and cannot any more"]
    caplog.clear()
    with data_folder.hold(wide):
        assert not caplog.records
