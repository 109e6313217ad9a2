"""The post that jobs and sources ask for: executors of runs. Pure."""

from collections.abc import Iterator

from rota.model.config import RuntimeConfig
from rota.runtime.crew.plan import WorkerPool
from rota.runtime.crew.posts import Post
from rota.sdk.summary import AppSummary

EXECUTOR = "executor"


def executor_posts(app: AppSummary, executors: int, config: RuntimeConfig) -> Iterator[Post]:
    """The executors, if the app has jobs or sources."""
    has_source = any(resource.source_every is not None for resource in app.resources)
    if (app.jobs or has_source) and config.executors:
        # A run may last for hours; a reload does not end it.
        yield Post(WorkerPool(EXECUTOR, executors), "executor", drain=None)
