"""The fleet itself: its members, its leader, events, hooks, the audit trail, and access."""
