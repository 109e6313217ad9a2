"""A service on one machine: the agent's side, and its workers."""
