"""Trying an app in a test: in one process, in virtual time. See `Stage`."""

from rota.stage.stage import Outcome, Sink, Stage, StagedTask, StillRunning, Stuck

__all__ = ["Outcome", "Sink", "Stage", "StagedTask", "StillRunning", "Stuck"]
