"""The checked-in code is what the contract says, and runs with every version of protobuf that an app may have."""

from pathlib import Path

import pytest

from rota.link.pb import link_pb2
from tests.kit.contracts import assert_is_generated_from
from tests.kit.process import ROOT


@pytest.mark.parametrize(
    ("contract", "package"), [("rota/v1/link", "rota/link/pb"), ("rota/etcd", "rota/store/etcd/pb")]
)
def test_the_generated_code_is_that_of_the_contract(contract: str, package: str, tmp_path: Path) -> None:
    assert_is_generated_from(contract, package, tmp_path)


@pytest.mark.parametrize("file", sorted((ROOT / "src/rota").rglob("*_pb2.py")), ids=lambda file: file.name)
def test_the_generated_code_locks_out_no_version_of_protobuf(file: Path) -> None:
    assert "ValidateProtobufRuntimeVersion" not in file.read_text(), f"{file.name}: generate it with make proto"


def test_every_call_of_the_contract_has_an_operation() -> None:
    methods = link_pb2.DESCRIPTOR.services_by_name["Link"].methods_by_name
    assert set(methods) == {"Check", "DispatchMany", "ReadLog"}
