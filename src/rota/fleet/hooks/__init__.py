"""Hooks: events that call a URL or a command."""
