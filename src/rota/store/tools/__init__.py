"""Looking after a store: checking, dumping, loading."""
