"""Members: the session of a node, its status and load, and what nodes know of each other."""
