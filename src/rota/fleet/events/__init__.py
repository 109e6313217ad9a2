"""Events in the store: recorded, read, followed, and cleared away."""
