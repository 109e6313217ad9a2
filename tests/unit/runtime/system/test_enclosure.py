"""Where the node's own cgroup is, and what is never touched."""

import os
from pathlib import Path

import pytest

from rota.runtime.system.enclosure import NOTE, Enclosure, own_cgroup, prefix

HYBRID = """\
30 20 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 20 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
"""
PURE = "31 20 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
BOUND = "31 20 0:27 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("mounts", "membership", "place"),
    [
        (HYBRID, "4:memory:/jobs\n0::/\n", "/sys/fs/cgroup/unified"),
        (PURE, "0::/system.slice/rota.service\n", "/sys/fs/cgroup/system.slice/rota.service"),
        (BOUND, "0::/docker/abc/x\n", "/sys/fs/my cgroup/x"),
        (BOUND, "0::/docker/abcd\n", None),
        (PURE, "0::/../elsewhere\n", None),
        (PURE, "4:memory:/jobs\n", None),
        ("30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "0::/\n", None),
        ("", "", None),
    ],
)
def test_the_nodes_own_cgroup_is_found_where_it_is_mounted(mounts: str, membership: str, place: str | None) -> None:
    assert own_cgroup(mounts, membership) == (Path(place) if place else None)


def test_without_a_cgroup_that_may_be_written_daemons_are_found_by_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.procs").touch()
    monkeypatch.setattr(
        "rota.runtime.system.enclosure._base", lambda: tmp_path
    )  # a folder, where nothing can be entered
    enclosure = Enclosure()
    enclosure.open("home", tmp_path)
    assert (enclosure.way, enclosure.root) == ("environment", None)
    assert "cgroup.kill" in enclosure.why_not
    assert enclosure.place(1) == ""
    assert not list(tmp_path.glob("rota-*")), "an empty cgroup is left behind"
    enclosure.close()


def test_only_cgroups_that_carry_the_name_of_the_data_folder_are_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, data = tmp_path / "base", tmp_path / "data"
    other, earlier, noted = base / f"{prefix('other')}1", base / f"{prefix('home')}1", tmp_path / "noted"
    for each in (base, data, other, earlier, noted):
        each.mkdir()
    (noted / "cgroup.procs").touch()
    (data / NOTE).write_text(f"{noted}\n")
    monkeypatch.setattr("rota.runtime.system.enclosure._base", lambda: base)
    Enclosure().open("home", data)
    assert [each.exists() for each in (other, earlier, noted)] == [True, False, True]


def test_each_life_and_generation_has_a_variable_of_its_own() -> None:
    one, other = Enclosure(), Enclosure()
    assert len({*one.environment(1).values(), *one.environment(2).values(), *other.environment(1).values()}) == 3
    assert all(name not in os.environ for name in one.environment(1))
