"""The operations on tokens and on the audit trail over gRPC."""

import grpc

from rota.api import audit, tokens, wire
from rota.api.audit import AuditLine
from rota.api.methods import Call, Method, Stream
from rota.api.pb import safety_pb2 as pb
from rota.api.tokens import NewToken, TokenView


async def _list(call: Call, request: pb.ListTokensRequest) -> pb.TokenList:
    found = await tokens.list_tokens(call.store, call.clock)
    page, further = call.page(request, found, lambda view: view.name)
    return pb.TokenList(tokens=map(_token, page), next=further or "")


async def _get(call: Call, request: pb.GetTokenRequest) -> pb.Token:
    return _token(await tokens.get_token(call.store, call.clock, request.name))


async def _create(call: Call, request: pb.CreateTokenRequest) -> pb.NewToken:
    life = wire.from_duration(request, "expires_in")
    most = call.caller.access
    made = await tokens.create_token(
        call.store, call.clock, request.name, request.role, by=call.by, expires_in=life, most=most
    )
    return _new(made)


async def _rotate(call: Call, request: pb.RotateTokenRequest) -> pb.NewToken:
    made = await tokens.rotate_token(
        call.store,
        call.clock,
        request.name,
        by=call.by,
        keep_old=wire.from_duration(request, "keep_old"),
        expires_in=wire.from_duration(request, "expires_in"),
        most=call.caller.access,
    )
    return _new(made)


async def _revoke(call: Call, request: pb.RevokeTokenRequest) -> pb.Token:
    return _token(await tokens.revoke_token(call.store, call.clock, request.name, most=call.caller.access))


async def _read(call: Call, request: pb.ReadAuditRequest) -> pb.AuditLines:
    limit = wire.given(request, "limit")
    page = await audit.read_audit(
        call.store,
        limit=audit.PAGE if limit is None else limit,
        by=request.by,
        refused=request.refused,
        since=wire.from_time(request, "since"),
        token=request.token,
    )
    return pb.AuditLines(entries=map(_line, page.entries), next=page.next or "")


async def _verify(call: Call, request: pb.VerifyAuditRequest) -> pb.AuditVerdict:
    found = await audit.verify_audit(call.store, noted=request.noted)
    return pb.AuditVerdict(
        is_whole=found.is_whole, links=found.links, waiting=found.waiting, head=found.head, flaw=found.flaw
    )


def _token(view: TokenView) -> pb.Token:
    return pb.Token(
        name=view.name,
        access=view.access,
        made=wire.to_time(view.made),
        by=view.by,
        expires=wire.to_time(view.expires),
        revoked=wire.to_time(view.revoked),
        is_good=view.is_good,
    )


def _new(made: NewToken) -> pb.NewToken:
    return pb.NewToken(name=made.name, access=made.access, expires=wire.to_time(made.expires), token=made.token)


def _line(line: AuditLine) -> pb.AuditLine:
    entry = line.entry
    return pb.AuditLine(
        number=line.number,
        hash=line.hash,
        id=entry.id,
        at=wire.to_time(entry.at),
        by=entry.by,
        origin=entry.origin,
        what=entry.what,
        changes=[pb.AuditChange(key=each.key, before=each.before, after=each.after) for each in entry.changes],
        refused=entry.refused,
        count=entry.count,
    )


METHODS: dict[str, Method | Stream] = {
    "rota.v1.Tokens.List": Method("list_tokens", _list),
    "rota.v1.Tokens.Get": Method("get_token", _get),
    "rota.v1.Tokens.Create": Method("create_token", _create, conflict=grpc.StatusCode.ALREADY_EXISTS),
    "rota.v1.Tokens.Rotate": Method("rotate_token", _rotate),
    "rota.v1.Tokens.Revoke": Method("revoke_token", _revoke),
    "rota.v1.Audit.Read": Method("read_audit", _read),
    "rota.v1.Audit.Verify": Method("verify_audit", _verify),
}
"""What answers each method of the contract."""
