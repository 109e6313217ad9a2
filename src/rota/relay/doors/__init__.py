"""What can be asked of relays."""
