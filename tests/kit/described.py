"""Schemathesis at the HTTP door: requests made from the description of the API, right ones and wrong ones.

The description is the node's own, so a new route is asked without anybody adding it. What must never come is an error
of ours, and an answer that the description does not promise.
"""

import json
import random
import time
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from tests.kit.fuzz import FEWEST, Tally

AT_ONCE = 2
"""Requests for one operation before the next has its turn."""

PROMISED = [status_code_conformance, content_type_conformance, response_schema_conformance]
"""What an answer must be besides no error of ours."""

PASSING = (503, 504)
"""Unavailable and Unknown: what was asked for is out of reach for now, and the answer says why."""

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


def fuzz_described(address: str, token: str, described: dict[str, Any], seconds: float, number: int) -> Tally:
    """Ask every operation of a description in turn, each time differently, until the time is over."""
    tally, end = Tally(), time.monotonic() + seconds
    operations = [each.ok() for each in schemathesis.openapi.from_dict(described).get_all_operations()]
    asked = [(each, mode) for each in operations if not _goes_on(each) for mode in MODES if _can_be(each, mode)]
    random.Random(number).shuffle(asked)  # a short run has no time for all of them
    with requests.Session() as session:
        session.auth = _Showing(token)
        while time.monotonic() < end or tally.sent < FEWEST:
            for operation, mode in asked:
                number += 1
                if time.monotonic() < end or tally.sent < FEWEST:
                    _ask(session, f"http://{address}", operation, mode, number, tally)
    return tally


class _Showing(requests.auth.AuthBase):
    """Shows the token, whatever else was made up for that header: strangers have tests of their own."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["authorization"] = f"Bearer {self._token}"
        return request


def _goes_on(operation: APIOperation) -> bool:
    """Is it a stream, which would not end?"""
    return "text/event-stream" in json.dumps(operation.definition.raw["responses"])


def _can_be(operation: APIOperation, mode: GenerationMode) -> bool:
    """Can it be asked so? What takes nothing cannot be asked wrongly."""
    raw = operation.definition.raw
    return mode is GenerationMode.POSITIVE or bool(raw["parameters"] or raw.get("requestBody"))


def _ask(
    session: requests.Session, url: str, operation: APIOperation, mode: GenerationMode, number: int, tally: Tally
) -> None:
    """A few requests for an operation, as this number makes them."""

    @seed(number)
    @settings(
        max_examples=AT_ONCE, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=HealthCheck
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        _judge(case, session, url, tally)

    ask()


def _judge(case: Case, session: requests.Session, url: str, tally: Tally) -> None:
    sent = (case.method, case.formatted_path, case.query, case.body)
    try:
        answer = case.call(base_url=url, session=session, timeout=60)
    except requests.RequestException as error:
        tally.note(type(error).__name__, is_broken=True, sent=(sent, error))
        return
    outcome = str(answer.status_code)
    if answer.status_code >= 500 and answer.status_code not in PASSING:
        tally.note(outcome, is_broken=True, sent=(sent, answer.content[:200]))
        return
    try:
        case.validate_response(answer, checks=PROMISED)
    except AssertionError as error:
        tally.note(f"{outcome}, not as promised", is_broken=True, sent=(sent, error))
    else:
        tally.note(outcome)
