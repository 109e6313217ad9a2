"""Stream processors beside Rota, each reading a topic of JSON from Kafka into Parquet files.

Run by the Python of `.venv-peers`, which knows nothing of Rota, so this module stands alone: `PEER` is who does it,
`HOSTS`, `TOPIC` and `COUNT` what is read, `FOLDER` where the files go. It prints the seconds from the first record on,
and how many records came in them.
"""

import json
import os
import time
from typing import Any
from uuid import uuid4

PEER, HOSTS, TOPIC, FOLDER = (os.environ.get(name, "") for name in ("PEER", "HOSTS", "TOPIC", "FOLDER"))
COUNT = int(os.environ.get("COUNT", "0"))
ROW_GROUP = 50_000
TUNED = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5}
"""The two defaults of the client that cost most of its speed, changed for everybody."""


class Watch:
    """When the first record came."""

    def __init__(self) -> None:
        self.began = 0.0

    def see(self) -> None:
        """A record is there."""
        if not self.began:
            self.began = time.perf_counter()

    def tell(self) -> None:
        """Print what it took."""
        print(time.perf_counter() - self.began, COUNT, flush=True)


watch = Watch()

if PEER == "quixstreams":
    from quixstreams import Application
    from quixstreams.sinks.community.file.formats import ParquetFormat
    from quixstreams.sinks.community.file.local import LocalFileSink

    def seen(row: Any) -> Any:
        """The row as it is."""
        watch.see()
        return row

    def run() -> None:
        """Its own sink for files, which writes at each of its checkpoints."""
        app = Application(
            broker_address=HOSTS,
            consumer_group=uuid4().hex,
            auto_offset_reset="earliest",
            loglevel="ERROR",
            consumer_extra_config=TUNED,
        )
        frame = app.dataframe(app.topic(TOPIC, value_deserializer="json")).apply(seen)
        frame.sink(LocalFileSink(directory=FOLDER, format=ParquetFormat(compression_type="zstd")))
        app.run(count=COUNT)

else:
    import bytewax.operators as op
    import pyarrow as pa
    import pyarrow.parquet as pq
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    class Files(StatelessSinkPartition):
        """A file of pyarrow's: it has no sink of its own for files."""

        def __init__(self) -> None:
            self._rows: list[Any] = []
            self._writer: pq.ParquetWriter | None = None

        def write_batch(self, items: list[Any]) -> None:
            """Take rows."""
            watch.see()
            self._rows += items
            if len(self._rows) >= ROW_GROUP:
                self._write()

        def close(self) -> None:
            """Nothing more comes."""
            self._write()
            if self._writer is not None:
                self._writer.close()

        def _write(self) -> None:
            if not self._rows:
                return
            table = pa.Table.from_pylist(self._rows)
            if self._writer is None:
                self._writer = pq.ParquetWriter(f"{FOLDER}/{uuid4().hex}.parquet", table.schema, compression="zstd")
            self._writer.write_table(table)
            self._rows = []

    class Sink(DynamicSink):
        """A file for each worker."""

        def build(self, step_id: str, worker_index: int, worker_count: int) -> Files:
            """Of one worker."""
            return Files()

    def run() -> None:
        """Read to where the topic ends."""
        flow = Dataflow("bench")
        config = {name: str(value) for name, value in TUNED.items()}
        source = KafkaSource([HOSTS], [TOPIC], tail=False, batch_size=1000, add_config=config)
        rows = op.map("rows", op.input("topic", flow, source), lambda record: json.loads(record.value))
        op.output("files", rows, Sink())
        run_main(flow)


if __name__ == "__main__":
    run()
    watch.tell()
