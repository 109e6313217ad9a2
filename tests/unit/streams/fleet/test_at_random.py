"""Whatever happens, every record is published once: leaders and tasks die, groups change, the source goes away."""

import asyncio
import random

import pytest

from rota.store import Store
from tests.kit.elections import leader, play
from tests.kit.stream_trial import Node, Trial

pytestmark = pytest.mark.slow


class Chance:
    """What happens next, by a seed."""

    def __init__(self, trial: Trial, node: Node, seed: int) -> None:
        self._trial, self._node, self._random = trial, node, random.Random(seed)
        self._nodes: dict[str, asyncio.Task[None]] = {}
        self._made = 0

    async def go(self, steps: int) -> None:
        """So many steps, and then the end."""
        happenings = [self._grow, self._grow, self._kill_task, self._kill_leader, self._wish, self._cut]
        self._join()
        for _ in range(steps):
            await self._random.choice(happenings)()
            await asyncio.sleep(self._random.uniform(0.05, 3))
        self._trial.topic.is_up = True
        self._join()
        await self._trial.wish()
        await asyncio.sleep(40)
        await self._trial.wish(is_suspended=True)
        for _ in range(120):
            if not await self._trial.groups():
                return
            await asyncio.sleep(1)

    def _join(self) -> None:
        self._made += 1
        name = f"n{self._made}"
        self._nodes[name] = self._node(name, self._trial.lead)

    async def _grow(self) -> None:
        for partition in range(len(self._trial.topic.partitions)):
            self._trial.grow(partition, self._random.randint(0, 30))

    async def _kill_task(self) -> None:
        if self._trial.running:
            name = self._random.choice(sorted(self._trial.running))
            await self._trial.end(name)
            await self._trial.place(name)

    async def _kill_leader(self) -> None:
        if (name := await leader(self._trial.store)) in self._nodes:
            self._nodes.pop(name).cancel()
            self._join()

    async def _wish(self) -> None:
        tasks, is_suspended = self._random.randint(1, 3), self._random.random() < 0.2
        await self._trial.wish(tasks=tasks, is_suspended=is_suspended, hand_off=(self._random.randint(0, 2),))

    async def _cut(self) -> None:
        self._trial.topic.is_up = not self._trial.topic.is_up


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_published_once(seed: int) -> None:
    async def story(store: Store, node: Node) -> None:
        trial = Trial(store)
        trial.topic.make_anew(4)
        working = asyncio.create_task(trial.work())
        await trial.declare(tasks=2, replicas=2, duration="6s", checkpoint_every="2s")
        await Chance(trial, node, seed).go(40)
        assert await trial.groups() == []
        assert await trial.rows() == trial.appended()
        working.cancel()

    play(story)
