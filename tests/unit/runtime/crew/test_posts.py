"""Which workers a node has for the tasks that it is to run."""

from rota import App, Batch
from rota.compose.wanted import posts
from rota.model.config import RuntimeConfig
from rota.runtime.crew.posts import canaries
from rota.runtime.pipes.brief import Order
from rota.sdk.summary import AppSummary


def shop() -> AppSummary:
    app = App("shop")

    @app.stream(source="log:///a", sink="parquet:///b")
    def clicks(batch: Batch) -> list[dict[str, object]]:
        return []

    return app.summary()


def test_a_stream_task_has_a_worker_of_its_own_and_never_two() -> None:
    order = Order("stream:clicks/g#0", 7, "stream:clicks", "g", 0)
    wanted = posts(shop(), [order], 2, RuntimeConfig())
    assert list(wanted) == ["task:stream:clicks/g#0"], "there is nothing for a host worker, nor for executors"
    post = wanted["task:stream:clicks/g#0"]
    assert (post.role, post.order) == ("stream", order)
    assert (post.pool.count, post.pool.version, post.pool.breaks_first, post.pool.needs_lease) == (1, 7, True, False)
    assert canaries(wanted, 2, RuntimeConfig()) == {}


def test_a_stream_worker_that_hangs_is_noticed_also_if_its_function_is_not_async() -> None:
    order = Order("stream:clicks/g#0", 7, "stream:clicks", "g", 0)
    (post,) = posts(shop(), [order], 2, RuntimeConfig()).values()
    assert post.has_loop
