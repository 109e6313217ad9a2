"""Where the output of runs is kept: the port and its laws, and the adapters SQL and folder."""
