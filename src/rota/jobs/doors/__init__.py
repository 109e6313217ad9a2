"""What can be asked of jobs and runs."""
