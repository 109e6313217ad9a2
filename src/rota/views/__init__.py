"""Views of a fleet across its kinds: the overview, watches, printed lines, and why."""
