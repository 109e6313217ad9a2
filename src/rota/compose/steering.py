"""Asks a node what only that node can answer, wherever it runs.

If it is this node, it answers itself. If not, it is asked at its HTTP door, with the token that the nodes of a fleet
share. Its answers, refusals included, are returned unchanged.
"""

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from rota.doors.steer import PASSED_ON, SteerVerb
from rota.kit.decoding import UNREADABLE
from rota.link.settings import TlsFiles
from rota.model import keys
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.model.problems import PROBLEMS
from rota.runtime.control_socket import Verb
from rota.runtime.loader.reload import ReloadFailed
from rota.store.port import Store
from rota.store.records import understood

if TYPE_CHECKING:
    import httpx2

PATIENCE = 15.0
"""Seconds that another node may take to answer; its proxies must answer within 5."""

FAMILIES: tuple[type[RotaError], ...] = (Invalid, NotFound, Denied, Conflict, Unavailable, Unknown)

LONGEST = 300.0
"""Seconds that a node may take for a reload or a rollback."""

LARGEST = 4 * 1024 * 1024
"""The largest answer, in bytes."""


class FleetSteering:
    """Asks a node by its name."""

    def __init__(
        self,
        node: NodeId,
        store: Callable[[], Store | None],
        own: Mapping[str, Verb],
        token: Callable[[], str],
        tls: TlsFiles | None = None,
    ) -> None:
        self._node, self._store, self._own, self._token, self._tls = node, store, own, token, tls

    async def __call__(self, node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any) -> Any:
        """The node's answer; NotFound if there is no node of that name."""
        if node == self._node:
            return await self._answer(verb, fields)
        if was_passed_on:
            raise Conflict(f"node {node} was meant, but node {self._node} is here; look its address up again")
        return await self._ask(node, await self._address(node), verb, fields)

    async def _answer(self, verb: SteerVerb, fields: dict[str, Any]) -> Any:
        try:
            return await self._own[verb](fields)
        except ReloadFailed as error:
            raise Conflict(str(error)) from None

    async def _address(self, node: NodeId) -> str:
        store = self._store()
        if store is None:
            raise Unavailable(
                "this node is not in the fleet yet; retry in a moment, or use another node", code="not_joined"
            )
        record = understood(Node, await store.get(keys.node(node)))
        if record is None:
            raise NotFound(
                f'there is no node "{node}" in the fleet; rota nodes ls shows those there are', code="node_not_found"
            )
        if not record.http:
            raise Unavailable(f"node {node} has no HTTP door at the moment; try again")
        return record.http

    async def _ask(self, node: NodeId, address: str, verb: SteerVerb, fields: dict[str, Any]) -> Any:
        import httpx2  # noqa: PLC0415  # a tenth of a second that only fleets of several nodes need

        method, path, body = _request(node, verb, fields)
        headers = {
            "authorization": f"Bearer {self._token()}",
            "accept-encoding": "identity",  # a compressed answer may be a thousand times as large when unpacked
            PASSED_ON: self._node,
        }
        patience = LONGEST if verb in (SteerVerb.RELOAD, SteerVerb.ROLLBACK) else PATIENCE
        try:
            async with httpx2.AsyncClient(timeout=patience, trust_env=False, verify=_context(self._tls)) as client:
                scheme = "https" if self._tls else "http"
                asked = client.stream(method, f"{scheme}://{address}{path}", json=body, headers=headers)
                async with asked as answer:
                    said = msgspec.json.decode(await _content(answer))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            raise Unavailable(f"node {node} was not reached at {address} ({type(error).__name__}); try again") from None
        except (httpx2.HTTPError, *UNREADABLE, ValueError) as error:
            raise Unknown(f"node {node} did not report the outcome ({type(error).__name__}); look again") from None
        if answer.is_success:
            return said["services"] if verb is SteerVerb.SERVICES else said
        raise _refusal(answer.status_code, said)


async def _content(answer: "httpx2.Response") -> bytes:
    """The body of an answer; ValueError if it is larger than `LARGEST`."""
    content = bytearray()
    async for part in answer.aiter_raw():
        content += part
        if len(content) > LARGEST:
            raise ValueError(f"the answer has more than {LARGEST} bytes")
    return bytes(content)


def _context(tls: TlsFiles | None) -> ssl.SSLContext | bool:
    """The TLS context of a request; None without certificates, because then there is no TLS."""
    if tls is None:
        return False
    context = ssl.create_default_context(cafile=str(tls.ca))
    context.load_cert_chain(tls.cert, tls.key)
    return context


def _request(node: NodeId, verb: SteerVerb, fields: dict[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    """Method, path and body of a request, as the HTTP door expects it."""
    base = f"/v1/nodes/{quote(node, safe='')}"
    if verb is SteerVerb.PRINTED:
        thing = "/".join(quote(str(fields[name]), safe="") for name in ("kind", "id"))
        query = {name: str(fields[name]) for name in ("after", "tail") if fields[name]}
        return "GET", f"{base}/logs/{thing}?{urlencode(query)}", None
    service = f"{base}/services/{quote(str(fields.get('service', '')), safe='')}"
    match verb:
        case SteerVerb.SERVICES:
            return "GET", f"{base}/services", None
        case SteerVerb.RELOAD | SteerVerb.ROLLBACK:
            return "POST", f"{base}/{verb}", {}
        case SteerVerb.CLEAR:
            return "POST", f"{service}/clear", {"groups": fields["groups"]}
        case SteerVerb.RESIZE:
            return "POST", f"{service}/resize", {"group": fields["group"], "count": fields["count"]}


def _refusal(status: int, said: object) -> RotaError:
    """The error that a door answered with; an older Rota sends no code."""
    fields = said if isinstance(said, dict) else {}
    code = str(fields.get("code", ""))
    family = next((each for each in FAMILIES if PROBLEMS[each.code].status == status), Unavailable)
    known = code if code in PROBLEMS and PROBLEMS[code].status == PROBLEMS[family.code].status else ""
    return family(str(fields.get("error", said)), code=known)
