"""The doors of a node: HTTP, the node link with the gRPC API beside it, and the control socket.

If a default port is taken, the door opens on another one and reports it. A configured port that is taken is an error.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from rota.compose.metrics import registry
from rota.compose.runtime import Runtime
from rota.compose.state import NodeState
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http.listen import address_of, bind
from rota.fleet.access.certificates import Folder, keep_fresh
from rota.fleet.core.access.gate import TurnedAway
from rota.kit.aside import in_thread
from rota.link.handler import LinkHandler
from rota.link.open import serve_link
from rota.link.port import LinkServer
from rota.link.settings import TlsFiles
from rota.model.config import NodeConfig, split_address
from rota.model.errors import Conflict, Invalid, NotFound
from rota.runtime.control_socket import Verb
from rota.runtime.loader.reload import Reloaded
from rota.runtime.printed import subject_of
from rota.services.doors.control import service_verbs

log = logging.getLogger(__name__)

CHANGING = frozenset({"stop", "reload", "rollback", "service.clear", "service.resize"})
"""The verbs that change something."""


@asynccontextmanager
async def open_doors(
    state: NodeState,
    config: NodeConfig,
    health: HealthChecks,
    gate: Doorkeeper,
    certificates: Folder | None,
    *,
    may_move: bool,
    may_lack_link: bool,
) -> AsyncIterator[None]:
    """HTTP and the node link, open inside to callers that `gate` admits; the state has their addresses."""
    async with AsyncExitStack() as up:
        sock = _bind(config.http, may_move)
        up.callback(sock.close)
        state.doors["http"] = _dialled(config, address_of(sock))
        tls = certificates.server_context() if certificates else None
        if certificates and tls:
            up.push_async_callback(_cancel, asyncio.create_task(keep_fresh(certificates, tls), name="certificates"))
        serving = asyncio.create_task(_serve_http(sock, state, config, health, gate, tls), name="http")
        serving.add_done_callback(_report_if_broken)
        up.push_async_callback(_cancel, serving)
        await _open_link(up, state, config, health, gate, certificates, may_move, may_lack_link)
        yield


def verbs(state: NodeState, stop: Callable[[bool], None]) -> dict[str, Verb]:
    """The verbs of the control socket; `stop(now)` stops the node."""

    async def show(_: dict[str, Any]) -> Any:
        return state.show()

    async def end(request: dict[str, Any]) -> Any:
        stop(bool(request.get("now")))
        return {"node": state.id}

    known = {"status": show, "stop": end, **steering_verbs(state)}
    return {name: _noted(state, name, verb) if name in CHANGING else verb for name, verb in known.items()}


def steering_verbs(state: NodeState) -> dict[str, Verb]:
    """Those of the verbs that other nodes may also ask for."""

    async def reload_all(_: dict[str, Any]) -> Any:
        return await reload(state)

    async def rollback(_: dict[str, Any]) -> Any:
        return await _work(state).reloads.rollback()

    async def printed(fields: dict[str, Any]) -> Any:
        if state.printed is None:
            raise NotFound(f"node {state.id} runs no app, so nothing is printed there")
        subject = subject_of(str(fields["kind"]), str(fields["id"]))
        return await in_thread(partial(state.printed.read, subject, str(fields["after"]), fields["tail"]))

    services = service_verbs(lambda: state.services, lambda: state.admins.closed if state.admins else {})
    return {"reload": reload_all, "rollback": rollback, "printed": printed, **services}


def _noted(state: NodeState, name: str, verb: Verb) -> Verb:
    """A verb that is recorded in the audit trail. Only the node's own user can open the control socket."""

    async def do(request: dict[str, Any]) -> Any:
        what = " ".join([name, *(str(value) for key, value in request.items() if key != "do")])
        state.notes.note(by=f"uid {os.getuid()}", origin=f"control socket of {state.id}", what=what)
        return await verb(request)

    return do


async def reload(state: NodeState) -> Reloaded:
    """Load the settings' declarations, and the app's code, as they are now."""
    state.read_settings_again()
    return await _work(state).reloads.reload()


UNMANNED = "not all workers are ready"


def _why_out(has_store: bool) -> str:
    """Why a node that has no session is not in the fleet, as far as it is known."""
    if not has_store:
        return "not in the fleet: the store was not reached yet, or another node has this id"
    return "not in the fleet: its session ended, as when the store is away for longer than lease_ttl"


def check_readiness(health: HealthChecks, state: NodeState) -> None:
    """Raises an error that says why the node should get no new work.

    Of a node that is not in the fleet only that is reported: it cannot get work, whether its workers are ready or not.
    """
    health.check_ready("session", lambda: None if state.session else _why_out(state.store is not None))
    if runtime := state.runtime:
        health.check_ready("workers", lambda: UNMANNED if state.session and not runtime.crew.is_settled() else None)
        health.check_ready("services", lambda: "; ".join(runtime.services.not_listening().values()) or None)
        health.check_ready("stopping", lambda: "the node is stopping" if runtime.is_draining else None)


def _work(state: NodeState) -> Runtime:
    if state.runtime is None:
        raise Invalid(f"node {state.id} runs no app; there is nothing to reload")
    return state.runtime


async def _serve_http(
    sock: socket.socket,
    state: NodeState,
    config: NodeConfig,
    health: HealthChecks,
    gate: Doorkeeper,
    tls: ssl.SSLContext | None,
) -> None:
    from rota.doors.http.door import door, serve  # noqa: PLC0415  # a tenth of a second of imports that nothing waits for
    from rota.doors.http.routes import routes  # noqa: PLC0415
    from rota.web.routes import is_page, pages  # noqa: PLC0415

    check_readiness(health, state)
    app = door(
        health,
        registry(state.figures),
        state.show,
        gate=gate,
        hosts=config.hosts,
        more=[*routes(state.behind), *pages()],
        is_page=is_page,
        refresh=state.service_figures.refresh,
        sessions=state.sessions,
        clock=state.clock,
        budget=state.behind.budget,
    )
    await serve(sock, app, tls, config.proxies)


async def _open_link(
    up: AsyncExitStack,
    state: NodeState,
    config: NodeConfig,
    health: HealthChecks,
    gate: Doorkeeper,
    certificates: Folder | None,
    may_move: bool,
    may_lack_link: bool,
) -> None:
    """The node link, and with it the API over gRPC."""
    handler = LinkHandler(state.id, lambda: state.session_id, state.runtime, lambda: state.jobs, state.read_log)
    stopping = asyncio.Event()

    def more() -> Sequence[Any]:
        from rota.doors.grpc.door import handlers  # noqa: PLC0415  # gRPC is an extra

        return handlers(state.behind, health, stopping, gate)

    def admit(method: str, authorization: str | None) -> TurnedAway | None:
        from rota.doors.grpc.door import turned_away  # noqa: PLC0415

        return turned_away(gate, method, authorization)

    def take_note(refused: TurnedAway, method: str, address: str) -> TurnedAway:
        return gate.turn_away(refused, door="grpc", address=address, what=method)

    def at(address: str) -> AbstractAsyncContextManager[LinkServer]:
        return serve_link(
            f"grpc://{address}",
            handler,
            tls=tls_files(certificates),
            more=more,
            admit=admit,
            take_note=take_note,
            is_revoked=gate.is_revoked,
        )

    try:
        try:
            server = await up.enter_async_context(at(config.grpc))
        except Conflict:
            if not may_move:
                raise
            server = await up.enter_async_context(at(_any_port(config.grpc)))
    except Invalid as error:  # gRPC is an extra; a single node works without it
        if not may_lack_link:
            raise
        log.warning("no node link", extra={"node": state.id, "why": str(error)})
        return
    up.callback(stopping.set)  # streams end before the door waits for its calls
    state.doors["grpc"] = _dialled(config, server.address.removeprefix("grpc://"))


def tls_files(certificates: Folder | None) -> TlsFiles | None:
    """A node's certificates, as the node link takes them."""
    if certificates is None:
        return None
    return TlsFiles(cert=certificates.cert, key=certificates.key, ca=certificates.ca)


def _bind(address: str, may_move: bool) -> socket.socket:
    try:
        return bind(address)
    except Conflict:
        if not may_move:
            raise
        return bind(_any_port(address))


def _any_port(address: str) -> str:
    return f"{address.rpartition(':')[0]}:0"


def _dialled(config: NodeConfig, address: str) -> str:
    """The address at which other nodes reach a door."""
    return f"{config.advertised}:{split_address(address)[1]}"


def _report_if_broken(task: "asyncio.Task[None]") -> None:
    """Log an error when a door closes by itself."""
    if not task.cancelled() and (error := task.exception()):
        log.error("the HTTP door broke", exc_info=error)


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
