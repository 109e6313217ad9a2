#!/usr/bin/env bash
# Generate the protobuf code that is checked in. Each contract is mapped into the package that uses it, so that the
# name protobuf registers, the file and the import path agree. Only messages are generated, with their types; the few
# lines that a gRPC stub would add are written by hand, where mypy sees them.
set -euo pipefail
cd "$(dirname "$0")/.."

generate() { # CONTRACT PACKAGE
    .venv/bin/python -m grpc_tools.protoc --proto_path="$2/$(basename "$1")=$1" --python_out=src --pyi_out=src \
        "$2/$(basename "$1")"
}

generate proto/rota/etcd.proto rota/store/etcd/pb
generate proto/rota/v1/link.proto rota/rpc/pb
generate proto/rota/v1/api.proto rota/api/pb
generate proto/rota/v1/jobs.proto rota/api/pb
generate proto/rota/v1/streams.proto rota/api/pb
generate proto/rota/v1/services.proto rota/api/pb
generate proto/rota/v1/safety.proto rota/api/pb
generate proto/crawler.proto rota/api/pb
generate proto/grpc/health.proto rota/api/pb
generate proto/grpc/reflection.proto rota/api/pb
