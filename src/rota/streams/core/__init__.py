"""The decisions about a stream's task groups. Pure: snapshots in, records out, time as an argument."""
