"""Tokens, tickets and certificates, as nodes keep and check them."""
