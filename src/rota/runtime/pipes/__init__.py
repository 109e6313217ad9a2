"""Messages among the processes of a node: one module for each conversation, and `channel`, which carries them all."""
