"""Templates of places: `{kind}.{id}` in a URL becomes the routing key, topic or key of each message."""

from collections.abc import Callable
from string import Formatter

from rota.sinks.port import Message

NAMES = ("kind", "id", "node")

Template = Callable[[Message], str]


def compile_template(text: str) -> Template:
    """What `text` makes of a message; ValueError says what may stand in braces."""
    for _, name, spec, conversion in Formatter().parse(text):
        if name is not None and (name not in NAMES or spec or conversion):
            raise ValueError(f"{{{name}}} is unknown; known are {', '.join(f'{{{known}}}' for known in NAMES)}")
    return lambda message: text.format(kind=message.kind, id=message.resource, node=message.node)
