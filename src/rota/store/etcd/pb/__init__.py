"""Code generated from `proto/rota/etcd.proto` by `scripts/proto.sh`."""
