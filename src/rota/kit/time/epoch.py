"""Times of day as a number: milliseconds since 1970, as records of streams carry them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(when: datetime) -> int:
    """The first millisecond that is not before `when`."""
    return -((_EPOCH - when) // _MILLISECOND)


def moment(time_ms: int) -> datetime:
    """The time that a number of milliseconds means, in UTC."""
    return _EPOCH + time_ms * _MILLISECOND
