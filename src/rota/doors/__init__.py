"""The doors: how clients call a node, over HTTP and gRPC."""
