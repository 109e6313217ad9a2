"""The command about resources."""
