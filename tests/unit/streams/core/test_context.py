"""What a stream's function is given."""

from datetime import UTC, datetime

from rota.sources.port import Record as Read
from rota.streams.core.context import Batch, Record, Records


def test_a_record_says_when_it_was_made_if_its_source_does():
    assert Record(0, 5, b"a", time_ms=1_500).at == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert Record(0, 5, b"a").at is None


def test_a_batch_is_its_records():
    records = [Record(partition=0, offset=5, value=b"a"), Record(partition=1, offset=2, value=b"b")]
    batch = Batch("clicks", records, {0: 6, 1: 3})
    assert list(batch) == records
    assert len(batch) == 2
    assert batch.values == [b"a", b"b"]


def test_records_are_made_of_what_was_read_when_somebody_looks():
    read = [Read(offset, 1_500, b"k", b"%d" % offset, (("trace", b"1"),)) for offset in range(3)]
    records = Records(7, read)
    whole = [Record(7, offset, b"%d" % offset, b"k", (("trace", b"1"),), 1_500) for offset in range(3)]
    assert list(records) == whole
    assert (len(records), records[1], list(records[1:])) == (3, whole[1], whole[1:])
    assert Batch("clicks", records).values == records.values == [b"0", b"1", b"2"]
