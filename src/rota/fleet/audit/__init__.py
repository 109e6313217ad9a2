"""The audit trail: who changed what, and the chain that seals it."""
