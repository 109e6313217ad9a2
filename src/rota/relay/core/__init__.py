"""The relay's decisions: which message is published, spooled or passed on, and what is acked when."""
