"""Hooks as records."""

from typing import Any

HOOK: dict[str, Any] = {"name": "pager", "events": ["node.*"], "url": "https://example.com/rota"}
