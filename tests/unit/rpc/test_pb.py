"""The checked-in code is what the contract says: `make proto` would change nothing."""

import subprocess
import sys
from pathlib import Path

from rota.rpc.pb import link_pb2
from tests.kit.process import ROOT


def test_the_generated_code_is_that_of_the_contract(tmp_path: Path) -> None:
    source = "rota/rpc/pb/link.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={source}={ROOT}/proto/rota/v1/link.proto"]
    subprocess.run([*command, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", source], check=True, cwd=ROOT)
    for name in ("link_pb2.py", "link_pb2.pyi"):
        generated = (tmp_path / "rota/rpc/pb" / name).read_text()
        assert generated == (ROOT / "src/rota/rpc/pb" / name).read_text(), f"{name} is out of date; run make proto"


def test_every_call_of_the_contract_has_an_operation() -> None:
    methods = link_pb2.DESCRIPTOR.services_by_name["Link"].methods_by_name
    assert set(methods) == {"Check", "Report", "Dispatch", "DispatchMany", "Control", "HandOver", "FollowLog"}
