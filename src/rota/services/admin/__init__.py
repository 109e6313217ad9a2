"""The admin door of a service, for the original control tool."""
