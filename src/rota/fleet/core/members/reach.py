"""Reach: can the nodes of a fleet call each other?

Nodes of one machine reach each other over the loopback. Nodes of several machines must each advertise an address that
the others reach, and use the same token. Without that a fleet looks healthy and its messages wait.

Tokens are compared only when a node joins with one that it made itself: files of tokens are read again when they
change, and while a fleet's token is rotated two are good.

Pure. `fleet.members.session` asks before it joins; `rota status` and the overview say what is wrong.
"""

from collections.abc import Iterable, Iterator, Sequence

from rota.kit.record import replace
from rota.model.config import LOOPBACK, NodeConfig, is_loopback, split_address
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.model.node import Node

SETTINGS = (
    "--tls tls/NODE, or --insecure if you trust everybody on that network; "
    "--http, --grpc and --advertise name the address"
)


def are_apart(one: Node, other: Node) -> bool:
    """Does the loopback of one not lead to the other? Nodes of an older Rota are distinguished by their hosts."""
    if one.network and other.network:
        return one.network != other.network
    return one.host != other.host


def advertises_loopback(node: Node) -> bool:
    """Is the address that it gives the others one that leads each of them to itself?"""
    address = node.grpc or node.http
    try:
        return is_loopback(split_address(address)[0])
    except Invalid:
        return False  # no address, or one of a newer Rota


def refusal(node: Node, others: Iterable[Node], *, is_by_hand: bool, has_own_token: bool) -> str | None:
    """Why a node must not join: it could not be called by those on other machines. None: it may.

    `is_by_hand`: its settings name the address that it advertises. `has_own_token`: they name no token.
    """
    apart = sorted(
        (other for other in others if other.id != node.id and are_apart(node, other)), key=lambda each: each.id
    )
    if not apart:
        return None
    there = f"{apart[0].id} on {apart[0].host}"
    if advertises_loopback(node) and not is_by_hand:
        address = node.grpc or node.http
        return (
            f"node {node.id} would advertise {address}, and node {there} cannot reach it there; "
            f"start it with {SETTINGS}"
        )
    marks = {other.token_mark for other in apart if other.token_mark}
    if has_own_token and node.token_mark and marks and node.token_mark not in marks:
        return (
            f"node {node.id} has a token of its own, and node {there} shows another; nodes of several machines need "
            f"the same: bring the file to this machine, and start with --token file:PATH"
        )
    return None


def faults(nodes: Sequence[Node]) -> Iterator[tuple[NodeId, str]]:
    """What keeps the nodes that are there from calling each other, each with the node where it is to be fixed."""
    for node in nodes:
        apart = [other for other in nodes if other.id != node.id and are_apart(node, other)]
        if apart and advertises_loopback(node):
            others = ", ".join(sorted(other.id for other in apart)[:3])
            yield (
                node.id,
                f"it advertises {node.grpc or node.http}, and nodes on other machines ({others}) cannot reach it "
                f"there; start it with {SETTINGS}",
            )


def settled(config: NodeConfig, *, is_default: bool, route: str | None, certified: Sequence[str] = ()) -> NodeConfig:
    """The settings of a node whose doors may be reached by other machines, with an address that those can use.

    `route` is this machine's address on its way to the store; None: the store is on this machine. `is_default`: http
    and grpc have their default addresses. `certified`: the hosts in the node's certificate, of which one must be
    advertised.
    """
    if route is None or config.advertise is not None or not (config.insecure or config.tls):
        return config
    advertise = next((host for host in (route, *certified) if not certified or host in certified), route)
    if is_default:
        shown = f"[{route}]" if ":" in route else route
        http, grpc = (f"{shown}:{split_address(address)[1]}" for address in (config.http, config.grpc))
        return replace(config, http=http, grpc=grpc, advertise=advertise)
    if config.advertised == LOOPBACK and not is_loopback(split_address(config.grpc)[0]):  # it listens everywhere
        return replace(config, advertise=advertise)
    return config
