"""Is the protobuf code that is checked in that of its contract?

The generator of `make proto` is older than the one the tests have, and writes it differently; so what is compared is
what the code says, not how: the description of the contract, and the types of every message's fields.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from tests.kit.process import ROOT


def assert_is_generated_from(contract: str, package: str, folder: Path) -> None:
    """AssertionError if `package` (as `rota/link/pb`) has other code for a contract (as `rota/v1/link`)."""
    name = contract.rpartition("/")[2]
    source = f"{package}/{name}.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={source}={ROOT}/proto/{contract}.proto"]
    outputs = [f"--descriptor_set_out={folder}/described", f"--pyi_out={folder}"]
    subprocess.run([*command, *outputs, source], check=True, cwd=ROOT)
    module = importlib.import_module(f"{package.replace('/', '.')}.{name}_pb2")
    described = FileDescriptorSet.FromString((folder / "described").read_bytes()).file[0]
    checked_in = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    assert checked_in == _without_json_names(described), f"{name}_pb2.py is out of date; run make proto"
    typed = _fields((folder / package / f"{name}_pb2.pyi").read_text())
    assert _fields((ROOT / "src" / package / f"{name}_pb2.pyi").read_text()) == typed, f"run make proto for {name}"


def _without_json_names(described: FileDescriptorProto) -> FileDescriptorProto:
    """As Python has it: the names that JSON would use follow from the others."""
    for message in described.message_type:
        _drop_json_names(message)
    return described


def _drop_json_names(message: DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("json_name")
    for inner in message.nested_type:
        _drop_json_names(inner)


def _fields(stub: str) -> dict[str, list[str]]:
    """What each class of a stub declares."""
    classes = (each for each in ast.walk(ast.parse(stub)) if isinstance(each, ast.ClassDef))
    return {each.name: [ast.unparse(line) for line in each.body if isinstance(line, ast.AnnAssign)] for each in classes}
