"""Stream tasks on one machine: their workers, dead letters, and the store that is lent to them."""
