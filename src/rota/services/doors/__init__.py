"""What can be asked of a node's services."""
