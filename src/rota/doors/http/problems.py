"""Errors as the HTTP door answers them: `application/problem+json` (RFC 9457), made from the table of codes.

`code` is for programs, `detail` for people. `error` has the same sentence as `detail`: clients that are older than the
codes read that.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher

import msgspec
from starlette.responses import Response

from rota.model.problems import PROBLEMS

MEDIA_TYPE = "application/problem+json"
LONGEST, ENDING = 2000, 400
"""Characters of a sentence, and how many of its last ones stay if it is longer."""

NEAR = 0.7
"""How similar an existing path must be to be suggested, from 0 to 1."""


def content(code: str, sentence: str) -> dict[str, object]:
    """The body of a refusal."""
    problem = PROBLEMS[code]
    if len(sentence) > LONGEST:  # it may contain a value as long as the body; what to do is said at the end
        sentence = f"{sentence[: LONGEST - ENDING - 1]}…{sentence[-ENDING:]}"
    return {
        "type": problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": sentence,
        "code": code,
        "error": sentence,
    }


def answer(code: str, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal, with `Retry-After` where repeating the request may help."""
    problem = PROBLEMS[code]
    wait = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    body = msgspec.json.encode(content(code, sentence))
    return Response(body, problem.status, {**wait, **(headers or {})}, media_type=MEDIA_TYPE)


def nearest(path: str, known: Iterable[str]) -> str:
    """The known path that `path` was probably meant to be; nothing if none is near."""
    scored = [(SequenceMatcher(None, path, _filled(each, path)).ratio(), each) for each in known]
    ratio, found = max(scored, default=(0.0, ""))
    return found if ratio >= NEAR else ""


def _filled(template: str, path: str) -> str:
    """A path with its placeholders replaced by the values of the request."""
    parts, sent = template.split("/"), path.split("/")
    if len(parts) != len(sent):
        return template
    return "/".join(given if part.startswith("{") else part for part, given in zip(parts, sent, strict=True))
