"""The commands about streams and logs."""
