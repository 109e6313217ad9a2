"""Figures of services are asked for when somebody scrapes, and not too often."""

import asyncio

from rota.services.core.records import ServiceStat
from rota.services.node.recent_figures import ServiceFigures
from tests.kit.hand_clock import HandClock
from tests.kit.services import MemoryServices


class Counted(MemoryServices):
    """Services that count how often they are asked, and may take their time."""

    def __init__(self) -> None:
        super().__init__({"logic": {1: 2}, "chat": {1: 1}})
        self.asked: list[str] = []

    async def stat(self, service: str) -> ServiceStat:
        self.asked.append(service)
        await asyncio.sleep(0)
        return await super().stat(service)


async def test_scrapes_of_one_second_share_an_answer() -> None:
    services, clock = Counted(), HandClock()
    figures = ServiceFigures(lambda: services, clock)
    await asyncio.gather(*(figures.refresh() for _ in range(5)))
    assert services.asked == ["logic", "chat"]
    clock.time += 0.9
    await figures.refresh()
    assert services.asked == ["logic", "chat"]
    clock.time += 0.2
    services.work("logic", 1, 7)
    await figures.refresh()
    assert services.asked == ["logic", "chat"] * 2
    logic = figures.latest["logic"]
    assert logic is not None
    assert logic.client_rsp == 7


async def test_a_service_that_does_not_answer_is_none_and_old_figures_are_not_shown_for_it() -> None:
    services, clock = Counted(), HandClock()
    figures = ServiceFigures(lambda: services, clock)
    await figures.refresh()
    assert figures.latest["chat"] is not None
    services.silent.add("chat")
    clock.time += 5
    await figures.refresh()
    assert figures.latest["chat"] is None
    assert figures.latest["logic"] is not None


async def test_a_node_without_services_has_no_figures() -> None:
    figures = ServiceFigures(lambda: None, HandClock())
    await figures.refresh()
    assert figures.latest == {}
