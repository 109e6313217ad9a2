"""Every verb: importing this module makes all of them known (`verbs.VERBS`)."""

from rota.fleet.doors import audit, event_operations, hooks, steering, tokens
from rota.fleet.doors.nodes import labels
from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.doors.nodes import why as node_why
from rota.jobs.doors import operations as job_operations
from rota.jobs.doors import run_operations, run_output
from rota.jobs.doors import why as job_why
from rota.placement.doors import planning
from rota.relay.doors import operations as relays
from rota.resources.doors import crawler, syncing
from rota.resources.doors import operations as resource_operations
from rota.resources.doors import why as resource_why
from rota.streams.doors import operations as stream_operations
from rota.views import fleet_status, overview, printing, pulse, watching, why

MODULES = (
    resource_operations, resource_why, node_operations, node_why, event_operations, labels, planning, relays, watching,
    syncing, fleet_status, overview, pulse, hooks, steering, printing, job_operations, run_operations, run_output,
    job_why, stream_operations, tokens, audit, crawler, why,
)  # fmt: skip
"""Where verbs and other operations are."""
