"""What can be asked of the fleet: events, hooks, tokens, the audit trail, and its nodes."""
