"""Secrets in files: whole or not at all, however many write them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.kit.files import write_secret


def test_a_secret_that_several_write_at_once_is_always_whole(tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_secret(file, "0" * 100_000)

    def write(digit: int) -> None:
        for _ in range(10):
            write_secret(file, str(digit) * 100_000)
            found = file.read_text()
            assert len(found) == 100_001
            assert len(set(found.strip())) == 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_disk_that_takes_no_more_leaves_the_secret_before_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    write_secret(file, "before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_secret(file, "after")
    assert file.read_text() == "before\n"
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
