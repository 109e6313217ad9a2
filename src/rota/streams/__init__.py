"""Streams: a partitioned log read into an output, each record once."""
