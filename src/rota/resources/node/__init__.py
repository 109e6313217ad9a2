"""Resource tasks on one machine: ordered, run by host workers or alone, their saved state, and queries of sources."""
