"""Resources: things to keep covered, each by a declared number of tasks."""
