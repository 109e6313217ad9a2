"""The embedded log: partitions of records in files, so that streams run without a broker.

`layout` says which files there are, `batches` and `index` what is in them, `segment` reads one of them. `writer`
appends to a partition, `partition` reads one, `log` appends to all partitions, and `source` is the adapter.
"""
