"""Rota keeps Python work running on a fleet of machines, without losing or doubling it."""

from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown

__all__ = ["Conflict", "Denied", "Invalid", "RotaError", "Unavailable", "Unknown", "__version__"]

__version__ = "0.1.0"
