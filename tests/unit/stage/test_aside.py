"""A plain function in virtual time."""

import asyncio
import contextvars
import threading

import pytest

from rota.kit.time import virtual
from rota.stage.aside import FunctionThread, Stuck


async def slept(seconds, value=None):
    await asyncio.sleep(seconds)
    return value


def test_it_returns_what_the_function_returns():
    assert virtual.run(FunctionThread(lambda: 3, 10).run()) == 3


def test_what_the_function_asks_for_takes_virtual_time():
    async def main():
        loop = asyncio.get_running_loop()
        aside = FunctionThread(lambda: [aside.call(slept(3600, 1)), aside.call(slept(3600, 2))], 10)
        return await aside.run(), loop.time()

    assert virtual.run(main()) == ([1, 2], 7200)


def test_two_functions_take_turns_in_one_order_each_time():
    def story():
        told = []

        def body(name, asides, pause):
            for count in range(3):
                told.append(f"{name}{count}")
                asides[name].call(slept(pause))

        async def main():
            asides = {}
            for name, pause in (("a", 2), ("b", 3)):
                asides[name] = FunctionThread(lambda name=name, pause=pause: body(name, asides, pause), 10)
            await asyncio.gather(*(aside.run() for aside in asides.values()))

        virtual.run(main())
        return told

    assert story() == story() == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_errors_go_both_ways():
    async def refuse():
        raise KeyError("from the loop")

    def body():
        with pytest.raises(KeyError, match="from the loop"):
            aside.call(refuse())
        raise ValueError("from the function")

    aside = FunctionThread(body, 10)
    with pytest.raises(ValueError, match="from the function"):
        virtual.run(aside.run())


def test_a_cancelled_function_ends_and_runs_its_finally():
    ended = []

    def body():
        try:
            aside.call(slept(3600))
        except Exception:
            ended.append("caught")  # it must not be: nobody catches the end of a process either
        finally:
            ended.append("finally")
            aside.call(slept(1))

    aside = FunctionThread(body, 10)

    async def main():
        task = asyncio.create_task(aside.run())
        await asyncio.sleep(1)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        virtual.run(main())
    assert ended == ["finally"]


def test_the_function_sees_the_context_it_was_started_in():
    color = contextvars.ContextVar("color", default="none")

    async def main():
        color.set("red")
        return await FunctionThread(color.get, 10).run()

    assert virtual.run(main()) == "red"


def test_a_function_that_never_asks_is_told_where_it_hangs():
    let_go = threading.Event()

    def hang_here():
        let_go.wait(60)

    with pytest.raises(Stuck, match=r"without a word(.|\n)*hang_here"):
        virtual.run(FunctionThread(hang_here, 0.05).run())
    let_go.set()
