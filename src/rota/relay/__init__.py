"""Emitted messages: deduplicated and published once, kept on disk while their sink is down."""
