"""The one place that puts the parts together."""

from rota.compose.node import AppFailed, Settings, Stop, run_node

__all__ = ["AppFailed", "Settings", "Stop", "run_node"]
