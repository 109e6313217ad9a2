"""The gRPC door: verbs and records as messages."""
