"""A short run of each fuzzer: nothing of ours falls over, nothing grows. `make show-safety` runs them for longer."""

from pathlib import Path

from tests.kit.fuzz import FEWEST
from tests.kit.fuzzed import GROWTH, fuzz_logs, fuzz_spools, fuzzed_node

SECONDS = 1.0
WARM = 0.5
SEED = 1
LONGER = {"HTTP as described": 4.0}
"""Seconds for what takes longer to think of its requests than they take."""


async def test_no_door_falls_over_what_nobody_should_send(tmp_path: Path) -> None:
    async with fuzzed_node(tmp_path) as fuzzed:
        fuzzers = fuzzed.fuzzers
        for fuzz in fuzzers.values():
            await fuzz(WARM, SEED + 1)  # first of all they load what they need, and buffers find their size
        before = fuzzed.memory()
        for name, fuzz in fuzzers.items():
            tally = await fuzz(LONGER.get(name, SECONDS), SEED)
            assert tally.broken == [], name
            assert tally.sent >= FEWEST, name
            assert fuzzed.is_well(), name
        assert fuzzed.memory() - before < GROWTH
        assert "Traceback" not in fuzzed.node.errors.read_text()


def test_a_damaged_spool_is_opened_or_refused_in_our_words(tmp_path: Path) -> None:
    tally = fuzz_spools(tmp_path, SECONDS, SEED)
    assert tally.broken == []
    assert tally.sent >= FEWEST


async def test_a_damaged_log_is_read_or_refused_in_our_words(tmp_path: Path) -> None:
    tally = await fuzz_logs(tmp_path, SECONDS, SEED)
    assert tally.broken == []
    assert tally.sent >= FEWEST
