"""A stream's own function: rows out, and what it cannot read put aside."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.streams.core.context import Batch, Record
from rota.streams.task.transform import SURPLUS, TooManyErrors, TooSlow, Transform


def batch(*values: bytes) -> Batch:
    records = [Record(partition=0, offset=offset, value=value) for offset, value in enumerate(values)]
    return Batch("s", records, {0: len(records)})


def parsed(batch: Batch) -> Iterator[dict[str, Any]]:
    for record in batch:
        yield json.loads(record.value)


async def made_later(batch: Batch) -> list[dict[str, Any]]:
    return list(parsed(batch))


async def yielded_later(batch: Batch) -> AsyncIterator[dict[str, Any]]:
    for row in parsed(batch):
        yield row


@pytest.mark.parametrize("function", [parsed, made_later, yielded_later, lambda given: list(parsed(given))])
async def test_rows_come_out_in_any_of_the_ways_functions_are_written(function: Callable[..., Any]) -> None:
    made = await Transform(function).make(batch(b'{"n": 1}', b'{"n": 2}'))
    assert made.rows == [[{"n": 1}, {"n": 2}]]
    assert made.letters == []


async def test_columns_stay_columns() -> None:
    columns = pa.RecordBatch.from_pydict({"n": [1, 2]})
    made = await Transform(lambda _: columns).make(batch(b"", b""))
    assert made.rows == [columns]


@pytest.mark.parametrize("function", [lambda _: None, lambda _: [], lambda _: iter(())])
async def test_a_batch_may_make_no_rows(function: Callable[..., Any]) -> None:
    made = await Transform(function).make(batch(b"x"))
    assert (made.rows, made.letters) == ([], [])


async def test_an_empty_batch_is_not_shown_to_the_function() -> None:
    def refuse(given: Batch) -> None:
        raise AssertionError(given)

    assert (await Transform(refuse).make(batch())).letters == []


@given(st.lists(st.sampled_from([b'{"n": 1}', b"poison"]), max_size=40))
async def test_what_cannot_be_read_is_put_aside_and_the_rest_goes_on(values: list[bytes]) -> None:
    made = await Transform(parsed).make(batch(*values))
    bad = [offset for offset, value in enumerate(values) if value == b"poison"]
    assert [letter.record.offset for letter in made.letters] == bad
    assert sum(len(piece) for piece in made.rows) == len(values) - len(bad)


async def test_a_letter_says_what_was_wrong() -> None:
    made = await Transform(parsed).make(batch(b"x"))
    assert made.letters[0].error.startswith("JSONDecodeError: Expecting value")


async def test_a_row_that_is_no_dict_is_the_records_fault() -> None:
    made = await Transform(lambda given: [record.value for record in given]).make(batch(b"x"))
    assert made.letters[0].error == "Invalid: it made a row of type bytes; each row must be a dict"


async def test_too_many_errors_end_the_task_and_name_the_last_one() -> None:
    transform = Transform(parsed, most_errors=1)
    await transform.make(batch(b"x"))
    with pytest.raises(TooManyErrors, match=r"2 records could not be read, and 1 may; .* partition 0, offset 1: "):
        await transform.make(batch(b'{"n": 1}', b"x"))


async def test_a_function_that_does_not_return_in_time_ends_the_task_and_no_record_is_blamed() -> None:
    async def never(_: Batch) -> list[dict[str, object]]:
        await asyncio.get_running_loop().create_future()
        return []

    with pytest.raises(TooSlow, match=r"did not return within 0\.01 s from 2 records"):
        await Transform(never, timeout=timedelta(milliseconds=10)).make(batch(b"x", b"y"))


async def test_a_function_is_called_once_at_a_time_and_has_its_time_from_then_on() -> None:
    busy = 0

    async def slow(_: Batch) -> list[dict[str, object]]:
        nonlocal busy
        busy += 1
        assert busy == 1
        await asyncio.sleep(0.2)
        busy -= 1
        return [{"n": 1}]

    first = Transform(slow, timeout=timedelta(seconds=0.5))
    several = [first, *(first.again() for _ in range(3))]
    found = await asyncio.gather(*(each.make(batch(b"x")) for each in several))
    assert [made.rows for made in found] == [[[{"n": 1}]]] * 4


async def test_a_time_out_of_the_function_itself_is_an_error_like_others() -> None:
    def times_out(_: Batch) -> list[dict[str, object]]:
        raise TimeoutError("the lookup took too long")

    made = await Transform(times_out, timeout=timedelta(minutes=1)).make(batch(b"x"))
    assert [letter.error for letter in made.letters] == ["TimeoutError: the lookup took too long"]


async def test_a_function_that_fails_on_every_record_ends_the_task_also_without_a_limit() -> None:
    transform = Transform(parsed)
    await transform.make(batch(*[b"{}"] * 5000))
    with pytest.raises(TooManyErrors, match="more records than not cannot be read"):
        await transform.make(batch(*[b"x"] * (SURPLUS + 1)))


async def test_bad_records_among_more_good_ones_never_end_a_task_that_has_no_limit() -> None:
    transform = Transform(parsed)
    for _ in range(10):
        await transform.make(batch(*[b"x", b"{}", b"{}"] * 20))
    assert transform.errors == 200
