"""Asking a source for its list."""

import asyncio

import pytest

from rota.kit.time import virtual
from rota.model.errors import Invalid
from rota.resources.core.collect import collect
from rota.resources.core.spec import Resource


def one(id, **fields):
    return Resource(kind="room", id=id, **fields)


async def coroutine():
    await asyncio.sleep(1)
    return [one("a"), one("b")]


async def agen():
    yield one("a")
    await asyncio.sleep(1)
    yield one("b")


async def coroutine_of_agen():
    return agen()


def gen():
    yield one("a")
    yield one("b")


@pytest.mark.parametrize("function", [coroutine, agen, coroutine_of_agen, gen, lambda: [one("a"), one("b")]])
def test_every_way_to_list(function):
    assert virtual.run(collect(function, lambda item: item, "room")) == [one("a"), one("b")]


def test_twice_the_same_is_once():
    assert virtual.run(collect(lambda: [one("a"), one("a")], lambda item: item, "room")) == [one("a")]


def test_twice_and_differently_is_refused():
    with pytest.raises(Invalid, match='it lists "a" twice, and differently'):
        virtual.run(collect(lambda: [one("a"), one("a", priority=1)], lambda item: item, "room"))


@pytest.mark.parametrize("listed", [None, 3, "abc", b"abc"])
def test_what_is_no_list(listed):
    with pytest.raises(Invalid, match="yield resources, or return a list of them"):
        virtual.run(collect(lambda: listed, lambda item: item, "room"))
