"""The loader imports the app once and forks workers from it; generations of loaders, and reloads."""
