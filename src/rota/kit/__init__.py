"""Small tools that know no fleet word."""
