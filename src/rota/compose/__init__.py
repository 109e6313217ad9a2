"""The one place that puts the parts together."""

from rota.compose.node import AppFailed, Stop, run_node
from rota.compose.parts import Settings

__all__ = ["AppFailed", "Settings", "Stop", "run_node"]
