"""Services: listeners whose requests idle workers answer."""
