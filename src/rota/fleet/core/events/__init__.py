"""Episodes: what has been wrong for so long that people are notified. Pure."""
