"""Small general tools that know nothing about fleets."""
