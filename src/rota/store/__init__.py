"""The store port: ordered keys with revisions, commits, watches and leases. Adapters are opened by URL."""

from rota.store.open import open_store
from rota.store.port import Absent, At, Change, Commit, Delete, Entry, Lease, Put, ScanResult, Store

__all__ = ["Absent", "At", "Change", "Commit", "Delete", "Entry", "Lease", "Put", "ScanResult", "Store", "open_store"]
