"""Wear: when a worker is replaced by a fresh one."""

import os
from datetime import timedelta

import pytest

from rota.model.config import RuntimeConfig, Size
from rota.runtime.crew.wear import SETTLED, Wear, worn

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("most", "age", "why"),
    [
        pytest.param(16 * 2**20, SETTLED, "of the 16 MiB that max_memory allows", id="it is full"),
        pytest.param(2**40, MINUTE, "", id="it has room"),
        pytest.param(16 * 2**20, SETTLED / 2, "", id="it has just begun"),
        pytest.param(None, MINUTE, "", id="no limit"),
    ],
)
def test_a_worker_that_has_used_up_its_memory_is_replaced(most: int | None, age: timedelta, why: str) -> None:
    config = RuntimeConfig(max_memory=None if most is None else Size(most))
    said = worn(Wear(age=age, done=0, pid=os.getpid()), config)
    assert (why in said) if why else said == ""


def test_the_memory_of_a_process_that_is_gone_wears_nobody() -> None:
    assert worn(Wear(age=MINUTE, done=0, pid=None), RuntimeConfig(max_memory=Size(16 * 2**20))) == ""
