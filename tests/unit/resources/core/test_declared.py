"""What the settings declare against what is stored."""

from datetime import UTC, datetime

from rota.resources.core.declared import ORIGIN, ResourceDiff, differ
from rota.resources.core.records import ResourceRecord, WantedResource, record_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE = WantedResource(kind="room", id="1", spec={"lang": "en"}, cost=2)


def stored(wanted: WantedResource, origin: str = ORIGIN) -> dict[str, ResourceRecord]:
    return {wanted.name: record_of(wanted, "uid", NOW, origin)}


def test_what_is_declared_and_not_there_is_added() -> None:
    assert differ({}, [ONE]) == ResourceDiff((ONE,), (), (), ())


def test_what_is_as_declared_stays() -> None:
    assert differ(stored(ONE), [ONE]) == ResourceDiff((), (), (), ())


def test_what_differs_is_put_back_and_keeps_its_uid() -> None:
    (changed,) = differ(stored(WantedResource(kind="room", id="1", priority=9, pin=None)), [ONE]).change
    assert changed == record_of(ONE, "uid", NOW, ORIGIN)


def test_what_left_the_file_is_removed_and_what_others_added_is_not() -> None:
    other = WantedResource(kind="room", id="2")
    found = differ({**stored(ONE), **stored(other, "api")}, [])
    assert [record.id for record in found.remove] == ["1"]
    assert differ(stored(ONE, "api"), [ONE]) == ResourceDiff((), (), (), ("room/1",))
