"""Adds to the contracts in proto/rota/v1 what verbs have and they lack: methods, their messages, fields of messages.

What is there stays as it is, names and numbers; a field that is added gets the next number. `make proto` calls this and
then generates the code. What cannot be said so, such as a body that an operation reads itself, is left to be written.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from google.protobuf.descriptor import Descriptor, FileDescriptor

from rota.doors import offered
from rota.doors.grpc import transcode, wire
from rota.doors.grpc import verbs as verb_grpc
from rota.doors.grpc.pb import api_pb2, jobs_pb2, safety_pb2, services_pb2, streams_pb2
from rota.doors.verbs import VERBS, Sort, Verb, VerbField, Where

FOLDER = Path(__file__).parent.parent / "proto/rota/v1"
FILES: tuple[FileDescriptor, ...] = tuple(
    each.DESCRIPTOR for each in (api_pb2, jobs_pb2, streams_pb2, services_pb2, safety_pb2)
)
STAMP, SPAN = "google.protobuf.Timestamp", "google.protobuf.Duration"
DECLARED = offered, wire
"""What declares verbs, and what their messages have in another way."""

PLAIN = {str: "string", int: "int64", float: "double", bool: "bool", bytes: "bytes", datetime: STAMP, timedelta: SPAN}
SAID = {
    Sort.TEXT: "string {}", Sort.COUNT: "optional int64 {}", Sort.FLAG: "bool {}", Sort.SPAN: f"{SPAN} {{}}",
    Sort.TIME: f"{STAMP} {{}}", Sort.TEXTS: "repeated string {}", Sort.AFTER: "optional int64 {}",
}  # fmt: skip
"""How a parameter is said; any other as JSON."""


class Contract:
    """One file, and what is added to it."""

    def __init__(self, file: FileDescriptor) -> None:
        self.file = file
        self.path = FOLDER / Path(file.name).name
        self.before = self.text = self.path.read_text()

    def add(self, what: str, name: str, line: str) -> None:
        """Put a line at the end of a service or message."""
        begin = re.search(rf"^{what} {name} \{{", self.text, re.MULTILINE)
        assert begin is not None, f"{self.path} has no {what} {name}"
        if self.text[begin.end()] == "}":
            self.text = f"{self.text[: begin.end()]}\n{self.text[begin.end() :]}"
        end = self.text.index("\n}", begin.start()) + 1
        self.text = f"{self.text[:end]}  {line}\n{self.text[end:]}"

    def make(self, name: str, lines: list[str]) -> None:
        """A message that is new."""
        if f"message {name} {{" in self.text:
            return
        numbered = "".join(f"  {line} = {number};\n" for number, line in enumerate(lines, 1))
        self.text += f"\nmessage {name} {{\n{numbered}}}\n"


def additions(files: tuple[FileDescriptor, ...] = FILES) -> list[Contract]:
    """The contracts, with what they lacked."""
    contracts = {file.name: Contract(file) for file in files}
    services = {name: contracts[file.name] for file in files for name in file.services_by_name}
    known = dict(_known())
    for verb in VERBS.values():
        service, _, method = verb.rpc.partition(".")
        if service not in services:
            continue
        contract = services[service]
        described = contract.file.services_by_name[service].methods_by_name.get(method)
        if described is None:
            line = f"rpc {method}({_request(contract, verb)}) returns ({_answer(contract, verb, known)});"
            contract.add("service", service, line)
    for (record, name), message in known.items():
        _complete(contracts[message.file.name], record, name, message, known)
    return list(contracts.values())


def _known() -> Iterator[tuple[tuple[type, str], Descriptor]]:
    """Each record and message that belong together."""
    methods = {
        method.full_name: method for file in FILES for each in file.services_by_name.values() for method in each.methods
    }
    seen: set[tuple[type, str]] = set()
    for verb in VERBS.values():
        found = methods.get(f"rota.v1.{verb.rpc}")
        if found is not None and verb.name not in verb_grpc.WRITE and not verb.deletes:
            for record in records(verb.record):
                yield from _below(record, found.output_type, seen)


def _below(record: type, message: Descriptor, seen: set[tuple[type, str]]) -> Iterator[tuple[Any, Descriptor]]:
    if (record, message.name) in seen:
        return
    seen.add((record, message.name))
    yield (record, message.name), message
    hints = get_type_hints(record)
    for name, attribute in transcode.attributes(record).items():
        field: Any = message.fields_by_name.get(name)
        kind: Any = field.message_type if field is not None else None
        if kind is not None and transcode.is_map(field):
            kind = kind.fields_by_name["value"].message_type
        if kind is not None and kind.full_name.startswith("rota."):
            for each in records(hints[attribute]):
                yield from _below(each, kind, seen)


def records(kind: Any) -> Iterator[Any]:
    """The records in a type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for each in get_args(kind):
        yield from records(each)


def _complete(contract: Contract, record: type, name: str, message: Descriptor, known: dict[Any, Descriptor]) -> None:
    """Add the fields that a message lacks of its record."""
    elsewhere = transcode.ELSEWHERE.get(message.full_name, {})
    number = max((field.number for field in message.fields), default=0)
    hints = get_type_hints(record)
    for field, attribute in transcode.attributes(record).items():
        if field not in elsewhere and not {field, f"{field}{transcode.JSON}"} & set(message.fields_by_name):
            number += 1
            contract.add("message", name, f"{_typed(contract, field, hints[attribute], known)} = {number};")


def _request(contract: Contract, verb: Verb) -> str:
    lines = [_said(field) for field in verb.fields]
    if any(field.where is Where.WHOLE for field in verb.fields):
        raise SystemExit(f"{verb.name} reads its body itself: write {verb.rpc} into {contract.path} by hand")
    if verb.page_by is not None:
        lines += ["optional int64 limit", "string token"]
    names = {line.rpartition(" ")[2] for line in lines}
    service, _, method = verb.rpc.partition(".")
    others = contract.file.services_by_name[service].methods
    for message in (other.input_type for other in others):  # one that is not named for another method
        if set(message.fields_by_name) == names and not any(other.name in message.name for other in others):
            return str(message.name)
    made = f"{method}{service.removesuffix('s')}Request"
    contract.make(made, lines)
    return made


def _said(field: VerbField) -> str:
    key = field.parameter.header.lower().replace("-", "_") if field.parameter and field.parameter.header else field.name
    return SAID.get(field.sort, f"string {{}}{transcode.JSON}").format("version" if key == "if_match" else key)


def _answer(contract: Contract, verb: Verb, known: dict[Any, Descriptor]) -> str:
    if verb.deletes:
        service, _, method = verb.rpc.partition(".")
        made = f"{service.removesuffix('s')}{method}d"
        contract.make(made, [_said(field) for field in verb.fields if field.where is Where.PATH])
        return made
    return _message(contract, next(records(verb.record)), known)


def _message(contract: Contract, record: Any, known: dict[Any, Descriptor]) -> str:
    """The message of a record in a contract, which is made if there is none."""
    for (each, _), message in known.items():
        if each is record and message.file.name == contract.file.name:
            return str(message.name)
    made = str(record.__name__).removesuffix("View")
    hints, names = get_type_hints(record), transcode.attributes(record)
    contract.make(made, [_typed(contract, field, hints[names[field]], known) for field in names])
    return made


def _typed(contract: Contract, name: str, hint: Any, known: dict[Any, Descriptor]) -> str:
    kinds = [each for each in get_args(hint) if each is not NoneType]
    is_optional = len(kinds) < len(get_args(hint)) and get_origin(hint) not in (tuple, list, dict)
    kind = kinds[0] if is_optional and len(kinds) == 1 else hint
    if get_origin(kind) in (tuple, list):
        return f"repeated {_one(contract, get_args(kind)[0], known)} {name}"
    if get_origin(kind) is dict and _one(contract, get_args(kind)[1], known):
        key, value = (_one(contract, each, known) for each in get_args(kind))
        return f"map<{key}, {value}> {name}"
    word = _one(contract, kind, known)
    if not word:
        return f"string {name}{transcode.JSON}"
    has_presence = "." in word or word not in PLAIN.values()
    return f"{'optional ' if is_optional and not has_presence else ''}{word} {name}"


def _one(contract: Contract, kind: Any, known: dict[Any, Descriptor]) -> str:
    """The type of one value; empty: only JSON can say it."""
    kind = getattr(kind, "__supertype__", kind)
    if isinstance(kind, type):
        if issubclass(kind, msgspec.Struct):
            return _message(contract, kind, known)
        return "string" if issubclass(kind, str) else PLAIN.get(kind, "")
    return ""


def main() -> None:
    """Write what was added."""
    for contract in additions():
        if contract.text != contract.before:
            contract.path.write_text(contract.text)


if __name__ == "__main__":
    main()
