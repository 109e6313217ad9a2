import ast
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from rota.fleet.core.access import token
from rota.fleet.core.hooks import record as hook
from rota.jobs.core import records as job
from rota.kit.text import docs
from rota.model import node


class Documented:
    size: int
    """How large it is."""
    name: str


def test_a_text_belongs_to_the_field_above_it() -> None:
    assert docs.field_docs(Documented) == {"size": "How large it is."}


def test_two_threads_never_parse_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 fails in one of them with SystemError."""
    met, together = Barrier(2), list[str]()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(ast, name)

        def parse(self, source: str) -> ast.Module:
            try:
                met.wait(0.2)
                together.append(source[:40])
            except BrokenBarrierError:
                met.reset()
            return ast.parse(source)

    docs._of_module.cache_clear()
    monkeypatch.setattr(docs, "ast", Watched())
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(docs.field_docs, [hook.HookStatus, job.JobRecord, node.Node, token.TokenRecord]))
    assert together == []
    assert len(found) == 4
