"""Records that a newer Rota wrote are left alone, and told where somebody listens."""

import logging

import pytest

from rota.model import codec
from rota.model.ids import Revision
from rota.model.node import Roster
from rota.store.port import Entry
from rota.store.records import understood

ROSTER = Roster(nodes={})
log = logging.getLogger(__name__)


def entry(value: bytes) -> Entry:
    return Entry("/fleet/roster", value, Revision(1), Revision(2))


def test_a_record_is_read_and_none_stays_none() -> None:
    assert understood(Roster, entry(codec.encode(ROSTER))) == ROSTER
    assert understood(Roster, None) is None


def test_a_newer_record_is_none_and_told_if_somebody_listens(caplog: pytest.LogCaptureFixture) -> None:
    newer = entry(b'{"v":99,"nodes":{}}')
    assert understood(Roster, newer) is None
    assert not caplog.records
    assert understood(Roster, newer, log) is None
    (told,) = caplog.records
    assert told.name == __name__
    assert (told.key, told.getMessage()) == ("/fleet/roster", "record not understood")  # type: ignore[attr-defined]
