"""Code generated from `proto/rota/v1/link.proto` by `scripts/proto.sh`."""
