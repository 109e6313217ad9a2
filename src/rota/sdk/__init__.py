"""What users write: the app and its decorators."""

from rota.sdk.app import App
from rota.sdk.service import Routes

__all__ = ["App", "Routes"]
