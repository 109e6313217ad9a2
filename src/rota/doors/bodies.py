"""What the bodies of requests carry, as records: verbs name them, and the description of the API is made from them.

Operations check what they are given, and say in a sentence what is wrong. These records name the same fields with their
types and texts. `example` is a body that a node accepts. Here is what several kinds share; the bodies of one kind are
in `bodies` beside its operations.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from rota.fleet.core.access.token import Access

Duration = Annotated[str, msgspec.Meta(description="A duration, such as `10s` or `1h30m`.")]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    example: ClassVar[dict[str, Any]] = {}
    refusals: ClassVar[dict[str, str]] = {}
    """Field → the sentence if it is missing or of another type, where there is a better one than for all fields.

    It may name parts of the path."""

    is_needed: ClassVar[bool] = False
    """Must there be a body, although every field has a default?"""


class ReasonBody(Body, frozen=True, kw_only=True):
    """Why something is done."""

    example: ClassVar[dict[str, Any]] = {"why": "disk is being replaced"}

    why: str | None = None
    """The reason, for people: at most 200 printable characters."""


class SessionBody(Body, frozen=True, kw_only=True):
    """The token that a browser exchanges for a session."""

    example: ClassVar[dict[str, Any]] = {"token": "rota_0123456789"}

    token: str
    """A token of this fleet."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Whose session it is."""

    name: str
    """The name of the token."""

    access: Access
    """The role of the token."""

    csrf: str
    """The word that a page sends as `x-rota-csrf` with whatever changes something."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node is well."""

    ok: bool
    """Is it?"""

    reasons: dict[str, str] = {}
    """What is wrong, by part; only if something is."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong (RFC 9457)."""

    type: str
    """The code as a URI."""

    title: str
    """What the code means, in a few words."""

    status: int
    """The status of the answer."""

    detail: str
    """What is wrong with this request, and what to do, in a sentence."""

    code: str
    """The code: one of the table of errors. It never changes its meaning."""

    error: str
    """The same sentence as `detail`, for older clients."""
