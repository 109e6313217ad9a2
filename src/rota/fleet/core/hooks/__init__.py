"""Which events go to which hook, and when. Pure."""
