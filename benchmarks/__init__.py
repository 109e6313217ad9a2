"""What Rota's own layers cost, beside the bare drivers: `python -m benchmarks`."""

from benchmarks.measure import Row
from benchmarks.suite import run

__all__ = ["Row", "run"]
