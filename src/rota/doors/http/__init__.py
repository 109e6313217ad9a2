"""The HTTP door: verbs as routes, sessions of browsers, and the description of the API."""
