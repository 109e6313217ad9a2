"""The services' scenario: clean seeds, broken safeguards found, and planted mistakes found too."""

import msgspec
import pytest

from rota.services.core.codes import Ret
from rota.services.core.dispatch.deadlines import Deadlines
from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.workers import Workers
from rota.services.core.table import merged
from rota.services.sim import node as service_node
from rota.services.sim.scenario import BROKEN
from rota.sim.run import run_seed, run_seeds


def first_violation(broken=None):
    """What the first seed that fails says; there must be one within 200."""
    for seed in range(200):
        if violations := run_seed(seed, "services", broken).violations:
            return violations[0]
    pytest.fail("no seed found it")


def test_every_request_is_answered_once_whatever_happens() -> None:
    verdicts = list(run_seeds(range(8), "services"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["requests"] for verdict in verdicts) > 10_000, "too quiet to prove anything"
    assert sum(verdict.counts["reloads"] for verdict in verdicts) > 40


def test_a_seed_tells_the_same_story() -> None:
    assert run_seed(3, "services").digest == run_seed(3, "services").digest


@pytest.mark.matrix
@pytest.mark.parametrize("broken", BROKEN)
def test_a_missing_safeguard_is_found(broken: str) -> None:
    assert first_violation(broken)


def keeps_watching(self, seat, now, lost=Dispatch.seat_lost):
    """A lost worker's requests keep their deadlines, also those that were answered."""
    answered = [ticket for ticket in seat.held.values() if ticket.is_answered and ticket.deadline is not None]
    watched = [
        ticket for ticket in answered if ticket.number in self.deadlines.by_timeout.get(ticket.route.timeout, ())
    ]
    lost(self, seat, now)
    for ticket in watched:
        self.deadlines.watch(ticket)


def forgets_the_gone(self, caller):
    """What waits for a client that hung up is dropped without a word."""
    caller.is_open = False
    for group in self.groups.values():
        for ticket in list(group.queue.lines.get(caller, ())):
            group.queue.take_out(ticket)
            self.deadlines.unwatch(ticket)


def flips_no_seats(self, group, generation):
    """A flip leaves the old workers where they were."""
    group.active = generation


def routes_by_ready_groups_only(old, new, target):
    """A cmd whose new group is not there yet is nowhere, once its old group has flipped."""
    found = merged(old, new, target)
    if found == new:
        return found
    routes = {
        cmd: route
        for cmd, route in found.routes.items()
        if route == new.routes.get(cmd) or found.groups[route.group] != target
    }
    return msgspec.structs.replace(found, routes=routes)


def lets_the_late_wait(self, ticket):
    """What waits too long is answered, and stays in its queue."""
    self.answers.fail(ticket, Ret.DEADLINE)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("part", "name", "mistake"),
    [
        (Dispatch, "seat_lost", keeps_watching),
        (Dispatch, "caller_gone", forgets_the_gone),
        (Dispatch, "_flip", flips_no_seats),
        (Dispatch, "_move_on", lambda self, group, now: None),
        (Dispatch, "_is_late", lets_the_late_wait),
        (Workers, "pump", lambda self, group, now: None),
        (Deadlines, "unwatch", lambda self, ticket: None),
    ],
)
def test_a_mistake_in_the_dispatch_is_found(monkeypatch: pytest.MonkeyPatch, part, name, mistake) -> None:
    monkeypatch.setattr(part, name, mistake)
    assert first_violation()


@pytest.mark.matrix
def test_a_mistake_in_the_tables_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_node, "merged", routes_by_ready_groups_only)
    assert "was refused: UNKNOWN_CMD" in first_violation()
