"""Which node gets which task, and when a task moves."""
