"""What the fleet records of itself, and what it decides: who belongs to it, who leads, who may do what. Pure."""
