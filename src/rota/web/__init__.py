"""The dashboard: pages that use the public HTTP API."""
