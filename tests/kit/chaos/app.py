"""The app of a fleet under chaos: all four kinds, and each notes what it did.

Rooms and their messages are those of the example with live rooms, jobs and the stream those of their own storms. The
service notes each request before it answers. An exclusive resource notes its epoch again and again.
"""

from tests.kit.job_storm import JOBS
from tests.kit.live_rooms import EXAMPLE
from tests.kit.streams import STREAM

ECHO = 1
"""The cmd that is answered with what came."""

SERVED, ACTS = "served", "acts"
"""The files of a node in which requests are noted, and acts of exclusive tasks."""

LINGER, HANDLING = 0.3, 0.05
"""Seconds that a run and a request take, so that some are under way whenever something dies."""

REST = f"""

def write(name, line):
    path = os.path.join(os.path.dirname(__file__), name)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode() + b"\\n")
    os.close(fd)


logic = app.service("logic", port=int(os.environ["CHAOS_PORT"]), groups={{1: 2}})


@logic.on({ECHO}, group=1)
def echo(request):
    write("{SERVED}", bytes(request.body).decode())
    time.sleep({HANDLING})
    return request.body


@app.resource(exclusive=True, start_within="1h")
async def single(task: rota.Task) -> None:
    while True:
        write("{ACTS}", f"{{task.resource}} {{task.epoch}} {{time.monotonic()}}")
        await asyncio.sleep(0.1)
"""


EVERY = "2s"
"""A job's next run waits for the one before, whose node may be gone: so it needs room to catch up."""


def chaos_app(source: str, sink: str, jobs: int) -> str:
    """Its source: the stream reads and publishes there, and so many jobs are due every other second."""
    return "".join(
        (
            (EXAMPLE / "app.py").read_text(),
            JOBS.format(jobs=jobs, every=EVERY, process="number % 4 == 0", retries=5, linger=LINGER),
            STREAM.format(source=source, sink=sink, options='tasks=2, replicas=2, duration="10s"'),
            REST,
        )
    )
