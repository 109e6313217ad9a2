#!/usr/bin/env bash
# Generate the protobuf code that is checked in. Each contract is mapped into the package that uses it, so that the
# name protobuf registers, the file and the import path agree. Only messages are generated, with their types; the few
# lines that a gRPC stub would add are written by hand, where mypy sees them.
#
# The generator is older than all else and lives in .venv-proto, for what it writes runs with every protobuf that apps may
# have; requirements/proto.in says why.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! .venv-proto/bin/python -c 'import grpc_tools.protoc' 2>/dev/null; then
    scripts/uv.sh venv --quiet --clear --python '>=3.11,<3.13' .venv-proto
    scripts/uv.sh pip install --quiet --python .venv-proto/bin/python --require-hashes --requirement requirements/proto.txt
fi

generate() { # CONTRACT PACKAGE
    .venv-proto/bin/python -m grpc_tools.protoc --proto_path="$2/$(basename "$1")=$1" --python_out=src --pyi_out=src \
        "$2/$(basename "$1")"
}

generate proto/rota/etcd.proto rota/store/etcd/pb
generate proto/rota/v1/link.proto rota/link/pb
generate proto/rota/v1/api.proto rota/doors/grpc/pb
generate proto/rota/v1/jobs.proto rota/doors/grpc/pb
generate proto/rota/v1/streams.proto rota/doors/grpc/pb
generate proto/rota/v1/services.proto rota/doors/grpc/pb
generate proto/rota/v1/safety.proto rota/doors/grpc/pb
generate proto/crawler.proto rota/doors/grpc/pb
generate proto/grpc/health.proto rota/doors/grpc/pb
generate proto/grpc/reflection.proto rota/doors/grpc/pb
