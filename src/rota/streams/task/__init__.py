"""One stream task: it reads what its group says, makes rows, and publishes them with their offsets."""
