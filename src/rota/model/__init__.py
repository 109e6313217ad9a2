"""What exists: frozen records, ids, errors, configuration. Pure."""
