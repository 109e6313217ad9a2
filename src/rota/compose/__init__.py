"""The one place that puts the parts together."""

from rota.compose.node import AppFailed, Stop, run_node
from rota.compose.parts import NodeSettings

__all__ = ["AppFailed", "NodeSettings", "Stop", "run_node"]
