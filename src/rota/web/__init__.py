"""The dashboard: pages that ask the HTTP API, like everybody else."""
