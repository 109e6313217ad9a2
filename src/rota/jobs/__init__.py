"""Jobs: work with due times, or started by hand."""
