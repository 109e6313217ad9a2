"""The codes of errors: what a program reads where a person reads the sentence.

Every error that a door answers with has one of these codes. A code is stable: the sentence beside it may be reworded,
the code stays. An error of Rota carries its code (`RotaError.code`); its family has one that fits whatever is said.

The status over HTTP, the status over gRPC and the reference page (docs/reference/errors.md) all follow from `PROBLEMS`.
Pure.
"""

import msgspec

DOMAIN = "rota"
"""Whose codes these are, where a protocol asks for that (`ErrorInfo.domain`)."""


class Problem(msgspec.Struct, frozen=True):
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
    Problem("bad_request", 400, "INVALID_ARGUMENT", "The request is not HTTP", "Send a valid HTTP/1.1 request."),
    Problem("bad_json", 400, "INVALID_ARGUMENT", "The body is not JSON", "Send one JSON object."),
    Problem("body_incomplete", 400, "INVALID_ARGUMENT", "The body ended too early", "Send the whole body."),
    Problem(
        "unauthenticated",
        401,
        "UNAUTHENTICATED",
        "No valid token",
        "Send `authorization: Bearer TOKEN` with a token that this fleet knows and that has neither expired nor been "
        "revoked.",
    ),
    Problem("denied", 403, "PERMISSION_DENIED", "Not allowed", "Use a token with the role that the operation needs."),
    Problem(
        "foreign_page",
        403,
        "PERMISSION_DENIED",
        "Request from a page of another site",
        "Use the node's own dashboard, or send a token in the header instead of a cookie.",
    ),
    Problem("not_found", 404, "NOT_FOUND", "Not found", "Look at what exists; the detail names the list to ask for."),
    Problem("path_not_found", 404, "NOT_FOUND", "No such path", "Compare the path with /openapi.json."),
    Problem("resource_not_found", 404, "NOT_FOUND", "No such resource", "List the resources."),
    Problem("node_not_found", 404, "NOT_FOUND", "No such node", "List the nodes."),
    Problem("service_not_found", 404, "NOT_FOUND", "No such service", "List the services of the node."),
    Problem("job_not_found", 404, "NOT_FOUND", "No such job", "List the jobs."),
    Problem("run_not_found", 404, "NOT_FOUND", "No such run", "List the runs; old runs are deleted."),
    Problem("stream_not_found", 404, "NOT_FOUND", "No such stream", "List the streams."),
    Problem("hook_not_found", 404, "NOT_FOUND", "No such hook", "List the hooks."),
    Problem("token_not_found", 404, "NOT_FOUND", "No such token", "List the tokens."),
    Problem("method_not_allowed", 405, "UNIMPLEMENTED", "Wrong method", "Use a method of the header `Allow`."),
    Problem("body_timeout", 408, "DEADLINE_EXCEEDED", "The body took too long", "Send it again, faster."),
    Problem(
        "conflict", 409, "ABORTED", "Someone else changed it", "Read it again, decide again, and repeat the request."
    ),
    Problem("already_exists", 409, "ALREADY_EXISTS", "The name is taken", "Update it, or choose another name."),
    Problem(
        "stale_version", 409, "ABORTED", "Not at that version", "Read it again, and send the version that it has now."
    ),
    Problem(
        "key_reused",
        409,
        "ABORTED",
        "The idempotency key belongs to another request",
        "Use a new key for a new request.",
    ),
    Problem("too_large", 413, "RESOURCE_EXHAUSTED", "Too large", "Send less, or ask for less."),
    Problem(
        "not_json",
        415,
        "INVALID_ARGUMENT",
        "The body is not declared as JSON",
        "Send the header `content-type: application/json`.",
    ),
    Problem(
        "wrong_host",
        421,
        "INVALID_ARGUMENT",
        "The request names another host",
        "Use the node's address, or start the node with `--advertise` and that name.",
    ),
    Problem("invalid", 422, "INVALID_ARGUMENT", "A value is not allowed", "Correct the value that the detail names."),
    Problem("unknown_field", 422, "INVALID_ARGUMENT", "No such field", "Leave the field out, or correct its name."),
    Problem(
        "unknown_parameter",
        422,
        "INVALID_ARGUMENT",
        "No such query parameter",
        "Leave the parameter out, or correct its name.",
    ),
    Problem(
        "unknown_kind", 422, "INVALID_ARGUMENT", "No app declares this kind", "Start a node whose app declares it."
    ),
    Problem(
        "too_many_requests",
        429,
        "RESOURCE_EXHAUSTED",
        "Too many requests",
        "Wait for the seconds in `Retry-After`, and send fewer requests.",
        1,
    ),
    Problem(
        "internal",
        500,
        "INTERNAL",
        "An error inside the node",
        "Look at the node's log; it is not your request's fault.",
    ),
    Problem(
        "unavailable",
        503,
        "UNAVAILABLE",
        "Out of reach for now",
        "Nothing happened. Repeat the request later, or ask another node.",
        1,
    ),
    Problem("no_node", 503, "UNAVAILABLE", "No node is available", "Nothing happened. Repeat the request later.", 1),
    Problem(
        "not_joined",
        503,
        "UNAVAILABLE",
        "The node is not in the fleet yet",
        "Ask again in a moment, or another node.",
        1,
    ),
    Problem("stopping", 503, "UNAVAILABLE", "The node is stopping", "Ask another node.", 1),
    Problem(
        "too_busy", 503, "UNAVAILABLE", "Too much at once", "Close connections or watches, or ask another node.", 1
    ),
    Problem(
        "unknown_outcome",
        504,
        "DEADLINE_EXCEEDED",
        "It may or may not have happened",
        "Read what there is before you repeat the request.",
    ),
)

PROBLEMS: dict[str, Problem] = {problem.code: problem for problem in _ALL}
"""Every code, in the order of its status over HTTP."""
