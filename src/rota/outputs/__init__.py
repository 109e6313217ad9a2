"""Committers: where the rows of streams go, together with the offsets of the records they came from.

`port` says what a committer is, `open` opens one by URL.
"""
