"""One log algorithm over SQL databases, with small dialects."""
