"""Job queues beside Rota, each with one task that notes when it was enqueued and when it began.

Run by the Python of `.venv-peers`, which knows nothing of Rota, so this module stands alone. What it defines depends on
`PEER`; `python queues.py COUNT PACE` enqueues so many, PACE seconds apart, and the peer's own worker imports this
module. No results are kept anywhere. `URL` is the server, `NOTES` the file.
"""

import asyncio
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PEER, URL, NOTES = (os.environ.get(name, "") for name in ("PEER", "URL", "NOTES"))
BATCH = 500


def work(enqueued: float) -> None:
    """What every task does."""
    fd = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, struct.pack("<dd", enqueued, time.time()))
    os.close(fd)


work.__module__ = "queues"  # also in the process that enqueues, where this is the main module: huey names tasks by it


def moments(count: int, pace: float) -> Iterator[float]:
    """The moments to enqueue at, waited for."""
    for _ in range(count):
        if pace:
            time.sleep(pace)
        yield time.time()


Enqueue = Callable[[int, float], None]
enqueue: Enqueue


if PEER == "celery":
    from celery import Celery

    app = Celery("queues", broker=URL)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)
    celery_task = app.task(work, name="work")

    def enqueue(count: int, pace: float) -> None:
        for now in moments(count, pace):
            celery_task.delay(now)

elif PEER.startswith("dramatiq"):
    import dramatiq

    if PEER == "dramatiq-rabbitmq":
        from dramatiq.brokers.rabbitmq import RabbitmqBroker

        dramatiq.set_broker(RabbitmqBroker(url=URL))
    else:
        from dramatiq.brokers.redis import RedisBroker

        dramatiq.set_broker(RedisBroker(url=URL))
    actor = dramatiq.actor(work, actor_name="work")

    def enqueue(count: int, pace: float) -> None:
        for now in moments(count, pace):
            actor.send(now)

elif PEER == "huey":
    from huey import RedisHuey

    app = RedisHuey("queues", url=URL, results=False)
    huey_task = app.task(name="work")(work)

    def enqueue(count: int, pace: float) -> None:
        for now in moments(count, pace):
            huey_task(now)

elif PEER == "arq":
    from arq import create_pool
    from arq.connections import RedisSettings

    async def arq_work(context: Any, enqueued: float) -> None:
        """The task as arq wants it."""
        work(enqueued)

    class WorkerSettings:
        """What its worker reads. It would look for work twice a second by itself."""

        functions = (arq_work,)
        redis_settings = RedisSettings.from_dsn(URL)
        poll_delay = 0.01
        max_jobs = 100
        keep_result = 0

    async def _enqueue(count: int, pace: float) -> None:
        pool = await create_pool(WorkerSettings.redis_settings)
        for _ in range(count):
            await asyncio.sleep(pace)
            await pool.enqueue_job("arq_work", time.time())
        await pool.aclose()

    def enqueue(count: int, pace: float) -> None:
        asyncio.run(_enqueue(count, pace))

elif PEER == "rq":
    from redis import Redis
    from rq import Queue

    def enqueue(count: int, pace: float) -> None:
        queue = Queue(connection=Redis.from_url(URL))
        for now in moments(count, pace):
            queue.enqueue("queues.work", now, result_ttl=0)

elif PEER == "procrastinate":
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=URL))
    task = app.task(name="work")(work)

    async def _defer(count: int, pace: float) -> None:
        async with app.open_async():
            if pace:
                for _ in range(count):
                    await asyncio.sleep(pace)
                    await task.defer_async(enqueued=time.time())
                return
            for start in range(0, count, BATCH):
                now = time.time()
                await task.batch_defer_async(*({"enqueued": now} for _ in range(min(BATCH, count - start))))

    def enqueue(count: int, pace: float) -> None:
        asyncio.run(_defer(count, pace))

elif PEER == "apscheduler":
    from apscheduler.executors.pool import ProcessPoolExecutor
    from apscheduler.schedulers.background import BackgroundScheduler

    def enqueue(count: int, pace: float) -> None:
        """It has no workers of its own: what schedules also runs."""
        scheduler = BackgroundScheduler(executors={"default": ProcessPoolExecutor(2)}, timezone="UTC")
        scheduler.start()
        for now in moments(count, pace):
            scheduler.add_job(work, args=[now], misfire_grace_time=None)
        while not os.path.exists(NOTES) or os.path.getsize(NOTES) < 16 * count:
            time.sleep(0.01)
        scheduler.shutdown()


if __name__ == "__main__":
    enqueue(int(sys.argv[1]), float(sys.argv[2]))
