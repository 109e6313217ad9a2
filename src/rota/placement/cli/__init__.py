"""The command about plans."""
