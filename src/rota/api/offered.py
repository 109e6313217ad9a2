"""Every verb: importing this module makes all of them known (`verbs.VERBS`)."""

from rota.api import (
    audit,
    crawler,
    event_operations,
    fleet_status,
    hooks,
    job_operations,
    job_why,
    labels,
    node_operations,
    node_why,
    overview,
    planning,
    printing,
    pulse,
    relays,
    resource_operations,
    resource_why,
    run_operations,
    run_output,
    steering,
    stream_operations,
    syncing,
    tokens,
    watching,
    why,
)

MODULES = (
    resource_operations, resource_why, node_operations, node_why, event_operations, labels, planning, relays, watching,
    syncing, fleet_status, overview, pulse, hooks, steering, printing, job_operations, run_operations, run_output,
    job_why, stream_operations, tokens, audit, crawler, why,
)  # fmt: skip
"""Where verbs and other operations are."""
