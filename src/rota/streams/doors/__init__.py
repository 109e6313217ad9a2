"""What can be asked of streams."""
