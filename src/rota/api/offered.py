"""Every verb: importing this module makes all of them known (`verbs.VERBS`)."""

from rota.api import (
    audit,
    crawler,
    fleet_status,
    hooks,
    job_operations,
    job_why,
    labels,
    operations,
    overview,
    planning,
    printing,
    pulse,
    relays,
    steering,
    stream_operations,
    syncing,
    tokens,
    watching,
)

MODULES = (
    operations, labels, planning, relays, watching, syncing, fleet_status, overview, pulse, hooks, steering, printing,
    job_operations, job_why, stream_operations, tokens, audit, crawler,
)  # fmt: skip
"""Where verbs are."""
