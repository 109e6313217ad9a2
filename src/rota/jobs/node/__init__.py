"""Attempts on one machine: accepted, given to executors, ended, and their output."""
