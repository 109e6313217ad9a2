"""Code generated from the contracts of the gRPC door (`proto/`) by `scripts/proto.sh`."""
