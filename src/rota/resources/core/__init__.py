"""Resources: what is declared, what is recorded, and what one still needs. Pure."""
