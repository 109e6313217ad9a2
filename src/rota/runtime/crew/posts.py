"""Posts: pools of workers, and what their workers are for.

Each kind of work says which posts its part of an app asks for (`resource_posts`, `service_posts`, `run_posts`);
`wanted.posts` puts them together. Pure.
"""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rota.kit.record import replace
from rota.model.config import RuntimeConfig
from rota.runtime.crew.plan import WorkerPool
from rota.runtime.pipes.brief import Order

RUN = "run"
"""The role of workers that are there for one attempt; they belong to no pool."""

CANARY = "canary:"


class Post(msgspec.Struct, frozen=True):
    """A pool, and what its workers are for."""

    pool: WorkerPool
    role: str
    service: str = ""
    group: str = ""
    has_line: bool = False
    """Do its workers have a line to a proxy?"""

    order: Order | None = None
    drain: timedelta | None = timedelta(seconds=10)
    """How long its workers may take to end; None for as long as their work takes."""

    has_loop: bool = False
    """Must its workers send a beat? Sync code may block for any time; an event loop may not.

    A stream's worker has a loop in any case: a function that is not async is called beside it.
    """


def canaries(wanted: Mapping[str, Post], generation: int, config: RuntimeConfig) -> dict[str, Post]:
    """One worker of each sort of the new generation; none for work that must not run twice."""
    found = {}
    for name, post in wanted.items():
        if not post.order and not post.pool.breaks_first and not post.pool.is_task:
            pool = WorkerPool(f"{CANARY}{name}", 1, generation=generation)
            found[pool.name] = replace(post, pool=pool, drain=config.grace, has_line=False)
    return found
