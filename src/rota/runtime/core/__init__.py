"""Decisions of the runtime. Pure."""
