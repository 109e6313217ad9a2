#!/usr/bin/env bash
# Generate the protobuf code that is checked in. Each contract is mapped into the package that uses it, so that the
# name protobuf registers, the file and the import path agree.
set -euo pipefail
cd "$(dirname "$0")/.."

generate() { # CONTRACT PACKAGE
    .venv/bin/python -m grpc_tools.protoc --proto_path="$2/$(basename "$1")=$1" --python_out=src --pyi_out=src \
        "$2/$(basename "$1")"
}

generate proto/rota/etcd.proto rota/store/etcd/pb
