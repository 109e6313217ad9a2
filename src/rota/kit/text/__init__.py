"""Text for people: docstrings, log lines, schemas in sentences, and what is safe for a terminal."""
