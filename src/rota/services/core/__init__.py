"""Services: what is declared, the wire formats, and which worker gets which request. Pure."""
