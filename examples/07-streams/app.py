"""Clicks of a shop, from a log into Parquet files: every click is there once."""

import json
from collections.abc import Iterator
from pathlib import Path

from rota import App, Batch

HERE = Path(__file__).resolve().parent

app = App("shop")


@app.stream(
    source=f"log://{HERE}/clicks",
    sink=f"parquet://{HERE}/out?by=day&time=at",
    start="earliest",
    tasks=2,  # partitions 0 and 2 are read by one group, 1 and 3 by another,
    replicas=2,  # each by two workers on two nodes
    duration="5s",  # so that something is published every few seconds; an hour is more usual
)
def clicks(batch: Batch) -> Iterator[dict[str, object]]:
    for record in batch:
        click = json.loads(record.value)
        yield {"part": record.partition, "number": record.offset, "at": click["at"], "page": click["page"]}
