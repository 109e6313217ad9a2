"""Whether somebody else had the processors when something was late."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kit.chaos import processors
from tests.kit.chaos.fleet import running
from tests.kit.chaos.processors import Look, Processors, was_taken
from tests.kit.waiting import eventually

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def look(seconds: float, taken: float) -> Look:
    return Look(NOON + timedelta(seconds=seconds), taken, idle=0.1)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([], False, id="nobody looked"),
        pytest.param([look(0, 0.2)], False, id="not much"),
        pytest.param([look(-50, 0.3), look(0, 0.1)], False, id="not much on the whole"),
        pytest.param([look(0, 0.2), look(-50, 0.4)], True, id="shortly before"),
        pytest.param([look(50, 0.3)], True, id="shortly after"),
        pytest.param([look(-61, 0.6), look(61, 0.6)], False, id="long before and after"),
    ],
)
def test_others_had_the_processors(looks: list[Look], expected: bool) -> None:
    assert was_taken(looks, NOON) is expected


async def test_who_had_them_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "EVERY", 0.05)
    file = tmp_path / "processors"
    async with running(Processors(file).run()):
        await eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    line = file.read_text().splitlines()[0]
    assert "others=" in line
    assert " idle=" in line


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("beam.smp", ["-W", "w"], "rabbitmq"),
        ("java", ["-Xmx512m", "kafka.Kafka"], "kafka"),
        ("postgres", ["postgres: rota rota 127.0.0.1"], "store"),
        ("python", ["python", "-m", "shows.proof"], "harness"),
        ("python3", ["rota: relay of a"], "fleet"),
        ("rota", ["rota", "node", "--store", "postgresql://db/rota"], "fleet"),
        ("sshd", [], "others of ours"),
    ],
)
def test_whose_a_process_is(name: str, argv: list[str], expected: str) -> None:
    assert processors._kind(name, argv) == expected
