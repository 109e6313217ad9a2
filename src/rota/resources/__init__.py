"""Resources: things to keep covered, each by so many tasks."""
