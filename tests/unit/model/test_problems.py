"""The table of codes, and that whatever is raised has one of them."""

import ast
from collections.abc import Iterator
from http import HTTPStatus

import grpc
import pytest

from rota.model import errors
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.problems import PROBLEMS
from tests.kit.source import each, modules, text


def named() -> set[str]:
    """Every code that the source names: by `code=`, as the first word of `problems.answer`, or for a whole class."""
    found: set[str] = set()
    for file in modules():
        is_ours = any(name in text(file) for name in ("RotaError", *FAMILIES))
        for node in each(file, ast.Call, ast.Assign, ast.Return):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="problems"), attr="answer"), args=[first, *_]):
                    found |= _texts(first)
                case ast.Call(keywords=words):
                    found |= {code for word in words if word.arg == "code" and is_ours for code in _texts(word.value)}
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                    found.add(code)
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="code"), *_])], value=ast.Tuple(elts=[one, *_])):
                    found |= _texts(one)
                case ast.Return(value=ast.Tuple(elts=[ast.Attribute(), ast.Constant(value=str(code))])):
                    found.add(code) if file.name == "guard.py" else None
    return found - {""}


def _texts(node: ast.expr) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


FAMILIES = {
    "Invalid": (Invalid, 422, "INVALID_ARGUMENT"),
    "NotFound": (NotFound, 404, "NOT_FOUND"),
    "Denied": (Denied, 403, "PERMISSION_DENIED"),
    "Conflict": (Conflict, 409, "ABORTED"),
    "Unavailable": (Unavailable, 503, "UNAVAILABLE"),
    "Unknown": (Unknown, 504, "DEADLINE_EXCEEDED"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_a_code_that_fits_whatever_it_says(name: str) -> None:
    family, status, grpc_status = FAMILIES[name]
    problem = PROBLEMS[family("why").code]
    assert (problem.status, problem.grpc) == (status, grpc_status)


def test_every_error_of_ours_has_a_code_of_the_table() -> None:
    def below(kind: type[RotaError]) -> Iterator[type[RotaError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    assert {error.code for error in below(RotaError)} <= PROBLEMS.keys()
    assert errors.LeaseLost.code == "internal"


def test_the_source_names_only_codes_of_the_table_and_every_one_of_them() -> None:
    assert named() | {RotaError.code} == PROBLEMS.keys()


def test_a_code_that_a_place_names_has_the_status_of_the_family_it_raises() -> None:
    for file in modules():
        for node in each(file, ast.Call):
            match node:
                case ast.Call(func=ast.Name(id=family), keywords=words) if family in FAMILIES:
                    for word in words:
                        if word.arg == "code" and isinstance(word.value, ast.Constant):
                            assert PROBLEMS[str(word.value.value)].status == FAMILIES[family][1], (file, node.lineno)


def test_no_door_answers_an_error_without_a_code() -> None:
    """What a module of the doors answers with goes through `problems.answer`."""
    for file in modules():
        if file.parent.name != "api" or file.name == "problems.py":
            continue
        for node in each(file, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            assert keys != {"error"}, f"{file.name}:{node.lineno} answers an error without a code"


def test_statuses_are_those_there_are_and_what_may_be_repeated_says_when() -> None:
    for problem in PROBLEMS.values():
        assert HTTPStatus(problem.status) >= HTTPStatus.BAD_REQUEST
        assert grpc.StatusCode[problem.grpc] is not grpc.StatusCode.OK
        assert (problem.retry_after is not None) == (problem.status in (429, 503))
        assert problem.doc.endswith(".")
        assert not problem.title.endswith(".")
    assert [each.status for each in PROBLEMS.values()] == sorted(each.status for each in PROBLEMS.values())


def test_an_error_carries_the_code_that_its_place_names() -> None:
    assert Invalid("no").code == "invalid"
    assert Invalid("no", code="unknown_field").code == "unknown_field"
    assert Conflict("no", code="already_exists").code == "already_exists"
    assert str(Conflict("no", code="already_exists")) == "no"
