"""Which fleet a command is about, and how it is reached."""
