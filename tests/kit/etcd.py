"""Talking to an etcd of ours behind Rota's back, through its JSON gateway."""

import base64
import json
import ssl
import urllib.request
from typing import Any

from tests.kit.servers import Etcd

PASSWORD = "correct-horse"


def ask(member: Etcd, path: str, context: ssl.SSLContext | None = None, **body: object) -> dict[str, Any]:
    """What etcd's JSON gateway answers."""
    request = urllib.request.Request(f"{member.url}/v3/{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return dict(json.loads(answer.read()))


def encoded(text: str) -> str:
    """Text as the gateway wants bytes."""
    return base64.b64encode(text.encode()).decode()


def set_up_users(member: Etcd, context: ssl.SSLContext | None = None) -> None:
    """Users root and ann, whose role is /ann; from now on nobody gets in without a password."""
    permission = {"permType": "READWRITE", "key": encoded("/ann"), "range_end": encoded("/ano")}
    ask(member, "auth/role/add", context, name="ann")
    ask(member, "auth/role/grant", context, name="ann", perm=permission)
    for user in ("root", "ann"):
        ask(member, "auth/user/add", context, name=user, password=PASSWORD)
        ask(member, "auth/user/grant", context, user=user, role=user)
    ask(member, "auth/enable", context)
