"""Jobs: follow, decide, commit, tell. Every node does it; there is no leader among them."""
