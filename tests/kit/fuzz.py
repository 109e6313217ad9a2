"""Fuzzing: bytes that nobody should send, made from those that somebody would.

Each fuzzer takes a generator of random numbers and a deadline, sends until that, and counts what came of it. What must
never come is an error of ours (5xx, INTERNAL), a door that does not answer any more, or memory that grows.
"""

import asyncio
import json
import random
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import grpc
import httpx2 as httpx

ODD: Sequence[Any] = (
    None, True, 0, -1, 2**31, 2**63, 1e308, "", " ", "a", "é", "\u0000", "\U0001f600", "../../etc/passwd", "..%2f..",
    "a" * 5000, "<script>alert(1)</script>", "\x1b[31mred", "'; drop table x;--", "%s%n", "{}", [], [[]], {}, {"": {}},
)  # fmt: skip
"""Values that programs stumble over."""


FEWEST = 20
"""Cases that are tried however long they take."""


@dataclass
class Tally:
    """What came of a fuzzer."""

    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """What must not come, with what was sent."""

    def note(self, outcome: str, *, is_broken: bool = False, sent: object = "") -> None:
        """Count one more."""
        self.sent += 1
        self.outcomes[outcome] += 1
        if is_broken and len(self.broken) < 20:
            self.broken.append(f"{outcome}: {str(sent)[:300]}")


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Bytes like these, a little or entirely wrong."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        match chance.randrange(6):
            case 0 if found:
                found[chance.randrange(len(found))] = chance.randrange(256)
            case 1 if found:
                del found[chance.randrange(len(found)) :]
            case 2:
                found += chance.randbytes(chance.randint(1, 64))
            case 3 if len(found) >= 4:
                at = chance.randrange(len(found) - 3)
                found[at : at + 4] = struct.pack(">I", chance.choice((0, 1, 2**31 - 1, 2**32 - 1, 70_000)))
            case 4:
                at = chance.randint(0, len(found))
                found[at:at] = found[: chance.randint(0, 40)]
            case _:
                found = bytearray(chance.randbytes(chance.randint(0, 200)))
    return bytes(found)


def value(chance: random.Random, depth: int = 0) -> Any:
    """A value of JSON that nobody expects."""
    if depth < 4 and chance.random() < 0.3:
        if chance.random() < 0.5:
            return [value(chance, depth + 1) for _ in range(chance.randint(0, 4))]
        return {str(chance.choice(ODD)): value(chance, depth + 1) for _ in range(chance.randint(0, 4))}
    return chance.choice(ODD)


async def fuzz_http(address: str, token: str, described: dict[str, Any], seconds: float, seed: int) -> Tally:
    """Ask every route of a description with everything wrong that can be."""
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    routes = [(method, path, each) for path, methods in described["paths"].items() for method, each in methods.items()]
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"http://{address}", headers=headers, timeout=60) as client:
        while time.monotonic() < end or tally.sent < FEWEST:
            method, path, operation = chance.choice(routes)
            if "text/event-stream" in json.dumps(operation["responses"]):
                continue
            content = _body(chance, operation, described)
            request = client.build_request(
                method.upper(),
                _path(chance, path),
                params={str(chance.choice((name, "x"))): str(chance.choice(ODD))[:300] for name in _names(operation)},
                content=content,
                headers={"content-type": chance.choice(("application/json", "application/json", "text/plain"))},
            )
            try:
                answer = await client.send(request)
            except httpx.TimeoutException:
                tally.note("no answer", is_broken=True, sent=(method, request.url, content[:200]))
                continue
            is_broken = answer.status_code >= 500 and answer.status_code not in (503, 504)
            tally.note(str(answer.status_code), is_broken=is_broken, sent=(method, request.url, content[:200]))
    return tally


def _path(chance: random.Random, path: str) -> str:
    parts = [
        quote(str(chance.choice(ODD))[:100], safe="") or "x" if part.startswith("{") else part
        for part in path.split("/")
    ]
    return "/".join(parts)


def _names(operation: dict[str, Any]) -> list[str]:
    return [each["name"] for each in operation["parameters"] if each["in"] == "query"][:4]


def _body(chance: random.Random, operation: dict[str, Any], described: dict[str, Any]) -> bytes:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    fields = {name: value(chance) for name in schema.get("properties", {}) if chance.random() < 0.7}
    content = json.dumps(fields if chance.random() < 0.7 else value(chance)).encode(errors="replace")
    match chance.randrange(10):
        case 0:
            return mutated(chance, content)
        case 1:
            return b"[" * chance.choice((100, 100_000))
        case _:
            return content


async def fuzz_grpc(address: str, token: str, methods: Sequence[str], seconds: float, seed: int) -> Tally:
    """Call every method with bytes that are no message, or a strange one."""
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    good = (b"", b"\x0a\x04room\x12\x011", b"\x0a\x01a", b"\x10\x05")
    async with grpc.aio.insecure_channel(address) as channel:
        while time.monotonic() < end or tally.sent < FEWEST:
            method, content = chance.choice(list(methods)), mutated(chance, chance.choice(good))
            call: Any = channel.unary_unary(method)
            try:
                await call(content, timeout=30, metadata=(("authorization", f"Bearer {token}"),))
                tally.note("OK")
            except grpc.aio.AioRpcError as error:
                is_broken = error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
                tally.note(error.code().name, is_broken=is_broken, sent=(method, content, error.details()))
    return tally


async def fuzz_socket(place: str | tuple[str, int], good: Sequence[bytes], seconds: float, seed: int) -> Tally:
    """Connect to a socket and send bytes like these; whatever it answers, the next connection must be taken."""
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    while time.monotonic() < end or tally.sent < FEWEST:
        content = b"".join(mutated(chance, chance.choice(list(good))) for _ in range(chance.randint(1, 3)))
        try:
            async with asyncio.timeout(60):
                if isinstance(place, str):
                    reader, writer = await asyncio.open_unix_connection(place)
                else:
                    reader, writer = await asyncio.open_connection(*place)
        except (OSError, TimeoutError) as error:
            tally.note(f"not taken: {error!r}", is_broken=True, sent=content)
            continue
        try:
            writer.write(content)
            writer.write_eof()
            async with asyncio.timeout(0.5):
                tally.note("answered" if await reader.read(4096) else "ended")
        except (OSError, TimeoutError) as error:
            tally.note(type(error).__name__)
        finally:
            writer.close()
    return tally
