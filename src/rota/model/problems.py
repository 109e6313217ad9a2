"""The codes of errors: what a program reads where a person reads the sentence.

Every error that a door answers with has one of these codes. A code is stable: the sentence beside it may be reworded,
the code stays. An error of Rota carries its code (`RotaError.code`); its family has one that fits whatever is said.

The status over HTTP, the status over gRPC and the reference page (docs/reference/errors.md) all follow from `PROBLEMS`.
Pure.
"""

import msgspec

DOMAIN = "rota"
"""Whose codes these are, where a protocol asks for that (`ErrorInfo.domain`)."""


class ProblemCode(msgspec.Struct, frozen=True):
    """A code, and what it is at each door."""

    code: str
    status: int
    """The status over HTTP."""

    grpc: str
    """The name of the status over gRPC."""

    title: str
    """What it is, in a few words that never change."""

    doc: str
    """What to do about it."""

    retry_after: int | None = None
    """Seconds after which the same request may succeed; None: repeating it does not help."""

    @property
    def type(self) -> str:
        """The URI that names the problem (RFC 9457)."""
        return f"urn:rota:error:{self.code}"


_ALL = (
    ProblemCode("bad_request", 400, "INVALID_ARGUMENT", "The request is not HTTP", "Send a valid HTTP/1.1 request."),
    ProblemCode("bad_json", 400, "INVALID_ARGUMENT", "The body is not JSON", "Send one JSON object."),
    ProblemCode("body_incomplete", 400, "INVALID_ARGUMENT", "The body ended too early", "Send the whole body."),
    ProblemCode(
        "unauthenticated",
        401,
        "UNAUTHENTICATED",
        "No valid token",
        "Send `authorization: Bearer TOKEN` with a token that this fleet knows and that has neither expired nor been "
        "revoked.",
    ),
    ProblemCode(
        "denied", 403, "PERMISSION_DENIED", "Not allowed", "Use a token with the role that the operation needs."
    ),
    ProblemCode(
        "foreign_page",
        403,
        "PERMISSION_DENIED",
        "Request from a page of another site",
        "Use the node's own dashboard, or send a token in the header instead of a cookie.",
    ),
    ProblemCode(
        "not_found", 404, "NOT_FOUND", "Not found", "Look at what exists; the detail names the list to ask for."
    ),
    ProblemCode("path_not_found", 404, "NOT_FOUND", "No such path", "Compare the path with /openapi.json."),
    ProblemCode("resource_not_found", 404, "NOT_FOUND", "No such resource", "List the resources."),
    ProblemCode("node_not_found", 404, "NOT_FOUND", "No such node", "List the nodes."),
    ProblemCode("service_not_found", 404, "NOT_FOUND", "No such service", "List the services of the node."),
    ProblemCode("job_not_found", 404, "NOT_FOUND", "No such job", "List the jobs."),
    ProblemCode("run_not_found", 404, "NOT_FOUND", "No such run", "List the runs; old runs are deleted."),
    ProblemCode("stream_not_found", 404, "NOT_FOUND", "No such stream", "List the streams."),
    ProblemCode("hook_not_found", 404, "NOT_FOUND", "No such hook", "List the hooks."),
    ProblemCode("token_not_found", 404, "NOT_FOUND", "No such token", "List the tokens."),
    ProblemCode("method_not_allowed", 405, "UNIMPLEMENTED", "Wrong method", "Use a method of the header `Allow`."),
    ProblemCode("body_timeout", 408, "DEADLINE_EXCEEDED", "The body took too long", "Send it again, faster."),
    ProblemCode(
        "conflict", 409, "ABORTED", "Someone else changed it", "Read it again, decide again, and repeat the request."
    ),
    ProblemCode("already_exists", 409, "ALREADY_EXISTS", "The name is taken", "Update it, or choose another name."),
    ProblemCode(
        "stale_version", 409, "ABORTED", "Not at that version", "Read it again, and send the version that it has now."
    ),
    ProblemCode(
        "key_reused",
        409,
        "ABORTED",
        "The idempotency key belongs to another request",
        "Use a new key for a new request.",
    ),
    ProblemCode("too_large", 413, "RESOURCE_EXHAUSTED", "Too large", "Send less, or ask for less."),
    ProblemCode(
        "not_json",
        415,
        "INVALID_ARGUMENT",
        "The body is not declared as JSON",
        "Send the header `content-type: application/json`.",
    ),
    ProblemCode(
        "wrong_host",
        421,
        "INVALID_ARGUMENT",
        "The request names another host",
        "Use the node's address, or start the node with `--advertise` and that name.",
    ),
    ProblemCode(
        "invalid", 422, "INVALID_ARGUMENT", "A value is not allowed", "Correct the value that the detail names."
    ),
    ProblemCode("unknown_field", 422, "INVALID_ARGUMENT", "No such field", "Leave the field out, or correct its name."),
    ProblemCode(
        "unknown_parameter",
        422,
        "INVALID_ARGUMENT",
        "No such query parameter",
        "Leave the parameter out, or correct its name.",
    ),
    ProblemCode(
        "unknown_kind", 422, "INVALID_ARGUMENT", "No app declares this kind", "Start a node whose app declares it."
    ),
    ProblemCode(
        "too_many_requests",
        429,
        "RESOURCE_EXHAUSTED",
        "Too many requests",
        "Wait for the seconds in `Retry-After`, and send fewer requests.",
        1,
    ),
    ProblemCode(
        "internal",
        500,
        "INTERNAL",
        "An error inside the node",
        "Look at the node's log; it is not your request's fault.",
    ),
    ProblemCode(
        "unavailable",
        503,
        "UNAVAILABLE",
        "Out of reach for now",
        "Nothing happened. Repeat the request later, or ask another node.",
        1,
    ),
    ProblemCode(
        "no_node", 503, "UNAVAILABLE", "No node is available", "Nothing happened. Repeat the request later.", 1
    ),
    ProblemCode(
        "not_joined",
        503,
        "UNAVAILABLE",
        "The node is not in the fleet yet",
        "Ask again in a moment, or another node.",
        1,
    ),
    ProblemCode("stopping", 503, "UNAVAILABLE", "The node is stopping", "Ask another node.", 1),
    ProblemCode(
        "too_busy", 503, "UNAVAILABLE", "Too much at once", "Close connections or watches, or ask another node.", 1
    ),
    ProblemCode(
        "unknown_outcome",
        504,
        "DEADLINE_EXCEEDED",
        "It may or may not have happened",
        "Read what there is before you repeat the request.",
    ),
)

PROBLEMS: dict[str, ProblemCode] = {problem.code: problem for problem in _ALL}
"""Every code, in the order of its status over HTTP."""
