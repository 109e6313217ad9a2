"""Jobs that apps and files declare."""

from datetime import UTC, datetime

import pytest

from rota.jobs.core.circle import circle
from rota.jobs.core.declared import DeclarationOwner, differ, undeclared
from rota.jobs.core.records import JobRecord, JobSpec, Origin

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SHOP = DeclarationOwner(Origin.APP, "shop")
FILE = DeclarationOwner(Origin.FILE, "n1")


def wanted(name, **options):
    return JobSpec(name=name, **options)


def record(name, origin=Origin.APP, app="shop", by="n1", **options):
    return JobRecord(spec=wanted(name, **options), origin=origin, since=NOW, at=NOW, app=app, by=by)


def test_what_is_new_or_different_is_put():
    stored = {"a": record("a"), "b": record("b")}
    found = differ(stored, [wanted("a"), wanted("b", retries=1), wanted("c")], SHOP)
    assert [job.name for job in found.put] == ["b", "c"]
    assert not found.refused


def test_others_come_after_what_they_come_after():
    jobs = [wanted("c", after=("b",)), wanted("b", after=("a",)), wanted("a")]
    assert [job.name for job in differ({}, jobs, SHOP).put] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (record("a", app="bank"), 'from app "bank"'),
        (record("a", origin=Origin.FILE, app="", by="n2"), "from the file of node n2"),
        (record("a", origin=Origin.API, app="", by="ann"), "from ann"),
    ],
)
def test_what_is_somebody_elses_is_left_alone(there, words):
    found = differ({"a": there}, [wanted("a", retries=9)], SHOP)
    assert not found.put
    assert words in found.refused["a"]


def test_a_file_is_complete_and_an_app_may_be_of_another_version():
    stored = {"a": record("a", origin=Origin.FILE, app=""), "b": record("b")}
    assert differ(stored, [], FILE).remove == ("a",)
    assert differ(stored, [], SHOP).remove == ()


@pytest.mark.parametrize(
    ("apps", "gone"),
    [
        pytest.param([], set(), id="nobody runs the app: it stays"),
        pytest.param([("bank", ["x"]), (None, [])], set(), id="another app"),
        pytest.param([("shop", ["a"]), ("shop", ["a", "b"])], set(), id="one of two versions has it"),
        pytest.param([("shop", ["a"])], {"b"}, id="none has it"),
    ],
)
def test_when_a_job_of_an_app_goes(apps, gone):
    stored = {"a": record("a"), "b": record("b"), "c": record("c", origin=Origin.API, app="")}
    assert undeclared(stored, apps) == gone


@pytest.mark.parametrize(
    ("after", "way"),
    [
        ({"a": (), "b": ("a",)}, []),
        ({"a": ("a",)}, ["a", "a"]),
        ({"a": ("b",), "b": ("c",), "c": ("a",)}, ["a", "b", "c", "a"]),
        ({"a": ("nobody",)}, []),
    ],
)
def test_circles(after, way):
    assert circle("a", after) == way
