"""A chat: who asks gets an answer from group 1; who speaks is heard by the whole room, through a forwarder.

Logging in is quick and must not wait behind talk, so each has workers of its own.
"""

import os

from chat import chat

import rota

LOGIN = 101

app = rota.App("chat")
logic = app.service("logic", port=int(os.environ.get("CHAT_PORT", "9904")), groups={1: 2, 2: 2}, udp=True)


@logic.on(LOGIN, group=1, timeout="2s")
def login(request: rota.Request) -> dict[str, object]:
    name = request.json()["name"]
    return {"ret": 0, "body": f"welcome, {name}"}


logic.include(chat)
