"""A process that publishes range after range of one partition, for tests that kill it.

`python -m tests.kit.publisher STORE OUTPUT`: it reads where the output is, writes the next records into a draft,
publishes, and says so, until it is killed or all are there. Another may do the same at the same time.
"""

import asyncio
import random
import sys

from rota.model.errors import Unavailable, Unknown
from rota.outputs.open import open_committer
from rota.outputs.port import KeepsLetters
from rota.outputs.verdict import Turn
from rota.store import open_store
from tests.kit.rows import STREAM, letter, ranges, rows

LAST = 100_000
STEP = 50


async def main(store_url: str, output: str) -> None:
    """Publish until the end."""
    async with open_store(store_url) as store, open_committer(output, STREAM, store) as committer:
        at = (await committer.begin({0: 0}))[0]
        await committer.sweep()
        while at < LAST:
            end = min(LAST, at + random.randint(1, STEP))
            draft = committer.draft("publisher", {0: at})
            draft.append(rows(0, at, end))
            if isinstance(committer, KeepsLetters):
                committer.keep_letters(draft, [letter(at)])
            try:
                verdict = await committer.publish(draft, ranges((0, at, end)))
            except (Unavailable, Unknown):
                at = (await committer.committed())[0]
                continue
            if verdict.turn is not Turn.PUBLISHED:
                draft.discard()
            at = (await committer.committed())[0]
            sys.stdout.write(f"{at}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
