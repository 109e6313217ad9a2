"""The command about relays."""
