"""The texts below the fields of a class, read from its source; Python itself forgets them.

    class Node:
        slots: int
        \"\"\"How many tasks it may hold.\"\"\"

`field_docs(Node)` is `{"slots": "How many tasks it may hold."}`. A text belongs to the one field above it. A module is
read once per process, and only when the texts are asked for.

One module is parsed at a time: on Python 3.11 two threads in `ast.parse` disturb each other, and it raises SystemError.
"""

import ast
import inspect
import sys
from functools import cache
from threading import Lock

_PARSING = Lock()


def field_docs(kind: type) -> dict[str, str]:
    """Field → its text, those of base classes included; fields without one are left out."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= _of_module(each.__module__).get(each.__qualname__, {})
    return found


def class_doc(kind: type) -> str:
    """The first paragraph of a class's docstring; empty if it has none."""
    return " ".join((inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]).split())


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    try:
        source = inspect.getsource(sys.modules[name])
        with _PARSING:
            tree = ast.parse(source)
    except (OSError, TypeError):  # built in, or installed without its source
        return {}
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        name = _field_name(field)
        match below:
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split())
    return found


def _field_name(node: ast.stmt) -> str:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
