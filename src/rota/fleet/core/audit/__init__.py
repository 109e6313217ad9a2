"""Entries of the audit trail and the links of its chain. Pure."""
