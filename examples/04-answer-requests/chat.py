"""What is said: handlers in a file of their own, for group 2. They answer nothing, and push through the forwarder."""

import os

from forwarder import PUSH

import rota
from rota.client import ServiceClient

SAY = 201
TOO_LONG = 1

chat = rota.Routes()
forwarder = ServiceClient(f"127.0.0.1:{os.environ.get('FORWARDER_PORT', '9905')}", timeout="2s", size=1)
"""Made before the workers are forked; each of them makes a connection of its own when it first has something to say."""


@chat.before_request
def be_brief(request: rota.Request) -> None:
    if len(request.body) > 1000:
        request.interrupt({"ret": TOO_LONG})


@chat.on(SAY, group=2, timeout="5s")
def say(request: rota.Request) -> None:
    said = request.json()
    forwarder.send(PUSH, json={"room": said["room"], "text": f"{said['name']}: {said['text']}"})
