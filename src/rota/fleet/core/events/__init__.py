"""Episodes: waits that last so long that an event reports them. Pure."""
