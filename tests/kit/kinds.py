"""A kind of resources as a record."""

from datetime import timedelta

from rota.resources.core.records import KindRecord

KIND = KindRecord(
    name="room",
    app="rooms",
    replicas=1,
    exclusive=False,
    runs_alone=False,
    silent_after=timedelta(seconds=30),
    start_within=timedelta(seconds=30),
    source_every=timedelta(minutes=30),
    source_timeout=timedelta(seconds=60),
)
