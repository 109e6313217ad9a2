"""Leading: elections, terms, and chores that one node does."""
