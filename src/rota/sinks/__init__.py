"""The publishing port: messages out, outcomes back. Adapters are opened by URL."""

from rota.sinks.open import open_sink
from rota.sinks.port import Message, Outcomes, Sink

__all__ = ["Message", "Outcomes", "Sink", "open_sink"]
