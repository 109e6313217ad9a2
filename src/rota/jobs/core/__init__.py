"""Jobs: what is due, where it runs, and what becomes of it."""
