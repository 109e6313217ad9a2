"""Resources as they are asked for at the doors and in rota.toml."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from rota.model.errors import Invalid
from rota.resources.doors.answers import LARGEST, read_resource


def spec_of(spec: object) -> dict[str, Any]:
    """What is kept of a spec."""
    return read_resource({"kind": "room", "id": "1", "spec": spec}).spec


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (date(2026, 11, 19), "2026-11-19"),
        (datetime(2026, 11, 19, 6, tzinfo=timezone(timedelta(hours=1))), "2026-11-19T06:00:00+01:00"),
    ],
    ids=str,
)
def test_a_spec_of_rota_toml_is_kept_as_the_store_gives_it_back(given: object, kept: object) -> None:
    """Otherwise what is declared would differ from what is stored at every look."""
    assert spec_of({"field": given}) == {"field": kept}


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(Invalid, match='room "1": its fields must be plain data that JSON can hold'):
        spec_of({"field": object()})


def test_a_spec_that_is_too_large_is_refused() -> None:
    assert spec_of({"field": "x" * (LARGEST - len('{"field":""}'))})
    with pytest.raises(Invalid, match=f"spec has {LARGEST + 1} bytes; at most {LARGEST} are kept"):
        spec_of({"field": "x" * (LARGEST + 1 - len('{"field":""}'))})
