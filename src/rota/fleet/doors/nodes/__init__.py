"""What can be asked of nodes."""
