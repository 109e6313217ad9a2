"""Which pools of workers an app and its orders ask for, of all kinds of work together.

Pure: from the summary of the app as the loader imported it, the tasks ordered, and the configuration, to the pools that
`runtime.crew.plan` plans for.
"""

from collections.abc import Iterable, Mapping

from rota.jobs.node.posts import executor_posts
from rota.model.config import RuntimeConfig
from rota.resources.node.posts import apart_post, host_posts, order_posts
from rota.runtime.crew.posts import Post
from rota.runtime.pipes.brief import Order
from rota.sdk.summary import AppSummary
from rota.services.node.posts import service_posts


def posts(
    app: AppSummary,
    orders: Iterable[Order],
    executors: int,
    config: RuntimeConfig,
    sizes: Mapping[tuple[str, int], int] | None = None,
    portions: Iterable[int] = (),
) -> dict[str, Post]:
    """What to man, by pool.

    `sizes` are the sizes of services' groups that an operator set, `portions` the numbers of those of suspects.
    """
    found = [
        *host_posts(app, config),
        *executor_posts(app, executors, config),
        *(apart_post(number, config) for number in portions),
        *(post for service in app.services for post in service_posts(service, config, sizes or {})),
        *order_posts(orders, app, config),
    ]
    return {post.pool.name: post for post in found}
