"""The commands about the fleet: nodes, events, hooks, tokens, tickets, certificates."""
