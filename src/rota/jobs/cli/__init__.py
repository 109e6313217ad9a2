"""The commands about jobs and runs."""
