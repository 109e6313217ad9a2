"""Where the output of runs is kept: the port and its laws; adapters for a folder and for SQL."""
