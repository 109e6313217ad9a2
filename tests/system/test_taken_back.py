"""A token that is taken back is refused at every door of every node, whatever was open with it."""

from pathlib import Path

import pytest

from rota.doors import verbs
from tests.kit.taken_back import HOW, fleet, grpc_streams, http_streams, measure


@pytest.mark.parametrize("how", HOW)
async def test_a_token_that_is_taken_back_is_refused_at_every_door_of_every_node(tmp_path: Path, how: str) -> None:
    async with fleet(tmp_path, ("a", "b")) as (doors, store, run):
        figures = await measure(doors, store, run, how)
        assert {each.node for each in figures} == {door.address for door in doors}
        assert [each for each in figures if not each.said] == []


def test_every_stream_there_is_was_tried() -> None:
    """`measure` reads the streams from the doors; here they are, so that nobody has to believe that."""
    assert {"watch_resources", "watch_events", "watch_pulse", "follow_log", "follow_printed"} == verbs.STREAMING
    assert len(http_streams("job/moment")) == 5
    assert sorted(grpc_streams("job/moment")) == [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/rota.v1.Events/Watch",
        "/rota.v1.Resources/Watch",
        "/rota.v1.Runs/FollowLog",
    ]
