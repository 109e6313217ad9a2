"""Jobs: follow, decide, commit, notify. Every node does it; there is no leader among them."""
