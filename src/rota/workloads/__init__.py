"""The kinds of work, one folder each: what a user declares, and what a user's function is handed."""
