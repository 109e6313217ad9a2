"""Keeping a lease, and renewing leases in a thread of their own."""
