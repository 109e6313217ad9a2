"""Making a sequence again whose rows the output refused, without the records that are at fault.

What a table refuses, a NOT NULL or a CHECK for instance, is known only when its rows are published, and by then nobody
knows which record a row came from. So the records of the sequence are read again, and the rows of each batch are tried
on the output, which takes none of them. Batches that are refused are halved like those that a function fails on, until
the record is found. The function may fail on other records than before: those are among what was found, too.
"""

from collections.abc import Callable
from functools import partial

from rota.outputs.port import Committer, Draft
from rota.sources.port import Batch as Read
from rota.sources.port import Source
from rota.streams.core.context import Batch
from rota.streams.core.manifest import Range
from rota.streams.task.transform import Transform, TransformResult


async def remake(
    ranges: tuple[Range, ...],
    source: Source,
    shown: Callable[[Read, int], Batch],
    transform: Transform,
    committer: Committer,
    draft: Draft,
    most: int,
) -> TransformResult:
    """Put the rows of these ranges into a draft; the records that made none, and those whose rows the output refuses.

    `shown` is what the function gets to see of a batch up to an offset, `most` how many records are read at a time.
    """
    found = TransformResult()
    tried = partial(committer.fitted, is_tried=True)
    ends = {each.partition: each.end for each in ranges}
    left = {each.partition: each.start for each in ranges if each.start < each.end}
    reader = await source.reader(left)
    try:
        while left:
            if dict(reader.positions) != left:
                await reader.assign(left)
            for batch in await reader.read(most):
                made = await transform.make(shown(batch, ends[batch.partition]), tried)
                for rows in made.rows:
                    draft.append(rows)
                found.letters += made.letters
                found.unfit += made.unfit
                left[batch.partition] = batch.next
            left = {partition: at for partition, at in left.items() if at < ends[partition]}
    finally:
        await reader.close()
    return found
