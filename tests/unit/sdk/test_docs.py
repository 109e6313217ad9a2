"""What "Write an app" shows is so: its code runs, and its tables name what there is."""

import inspect
import re
import sys
from types import ModuleType

import pytest

import rota
from rota.services.core.spec import HOOKS
from rota.testing import Stage
from tests.kit.process import ROOT

PAGE = (ROOT / "docs/howto/write-an-app.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def shop(monkeypatch):
    """The page's code, run as one module."""
    module = ModuleType("shop_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile("\n".join(BLOCKS), "write-an-app.md", "exec"), vars(module))
    return module


def test_the_pages_own_test_passes(shop):
    shop.test_the_shop()


def test_the_page_declares_one_of_each(shop):
    app = shop.app
    assert [list(each) for each in (app.resources, app.services, app.jobs, app.commands, app.streams)] == [
        ["feed", "meter"],
        ["logic"],
        ["report", "by_hand"],
        ["backup"],
        ["clicks"],
    ]
    app.summary()


def test_a_plain_task_and_routes_of_the_page_work(shop):
    with Stage(shop.app) as stage:
        stage.start(shop.meter("1"))
        stage.advance("31s")
        assert stage.sink.payloads == [b"a reading"] * 2
        assert stage.request(shop.logic, 201, b"hey") == rota.Reply(b"HEY")
        assert stage.request(shop.logic, 101) == rota.Reply(ret=-1)


@pytest.mark.parametrize(
    ("section", "method"),
    [
        ("Resources", rota.App.resource),
        ("Services", rota.App.service),
        ("Jobs and commands", rota.App.job),
        ("Jobs and commands", rota.App.command),
        ("Streams", rota.App.stream),
    ],
)
def test_every_option_is_on_the_page(section, method):
    options = [name for name, it in inspect.signature(method).parameters.items() if it.kind is it.KEYWORD_ONLY]
    text = SECTIONS[section]
    assert not [name for name in options if name != "name" and not re.search(rf"`{name}`|\b{name}=", text)]


def test_every_hook_is_on_the_page():
    told = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*?\|", SECTIONS["Services"], re.MULTILINE)))
    assert told == list(HOOKS)


def test_every_call_of_the_stage_is_on_the_page():
    calls = [name for name in vars(Stage) if not name.startswith("_")]
    assert not [name for name in calls if f"`{name}" not in SECTIONS["Try it"]]
