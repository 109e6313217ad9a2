"""The leader's view of the fleet, and its supervisor, which writes assignments."""
