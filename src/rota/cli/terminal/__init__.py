"""What commands print: tables, colours, progress, charts."""
