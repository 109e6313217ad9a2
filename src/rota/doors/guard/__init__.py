"""Admission at the doors, and limits on what one caller may use."""
