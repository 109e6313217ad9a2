"""Specs as users write them: the options, how they are read from a decorator, a file or a request, and their checks."""
