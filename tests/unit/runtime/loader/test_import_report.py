"""What the log says while an app is imported."""

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from rota.kit.time import virtual
from rota.runtime.loader.import_report import report_import


def reported(pid: int, seconds: float, caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """The fields of each line that an import of this length gets."""

    async def main() -> None:
        reporting = asyncio.create_task(report_import("app.py", 1, pid))
        await asyncio.sleep(seconds)
        reporting.cancel()

    with caplog.at_level(logging.INFO):
        virtual.run(main())
    assert {record.message for record in caplog.records} <= {"still importing the app"}
    return [vars(record) for record in caplog.records]


def test_a_short_import_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert reported(os.getpid(), 4.9, caplog) == []


def test_a_long_import_is_reported_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    found = reported(os.getpid(), 30, caplog)
    assert [line["waited_s"] for line in found] == [5, 15, 25]
    assert {(line["app"], line["generation"]) for line in found} == {("app.py", 1)}
    assert all(isinstance(line["cpu_s"], float) and line["cpu_s"] > 0 for line in found)


def test_a_process_that_has_gone_has_used_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    assert [line["cpu_s"] for line in reported(gone.pid, 6, caplog)] == [0.0]
