"""Committers into tables: rows and offsets share the database's own transaction, and that database is the truth."""
