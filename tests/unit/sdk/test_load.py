"""Finding the app."""

import importlib
import os
import pickle
import sys
import textwrap
from pathlib import Path

import pytest

from rota.model.errors import Invalid
from rota.sdk.load import load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def write(folder):
    def write(name, text):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))

    return write


ONE = 'import rota\napp = rota.App("one")\n'
TWO = 'import rota\na = rota.App("one")\nb = rota.App("two")\n'


@pytest.mark.parametrize("target", ["shop_app.py", "shop_app.py:app", "./shop_app.py", "shop_app", "shop_app:app"])
def test_one_app_in_a_file(write, target):
    write("shop_app.py", ONE)
    assert load(target).name == "one"


@pytest.mark.parametrize("target", ["deep/er/shop_app.py", "deep/er/shop_app.py:app"])
def test_a_file_finds_what_lies_beside_it(folder, write, target):
    write("deep/er/shop_beside.py", 'NAME = "beside"\n')
    write("deep/er/shop_app.py", "import rota, shop_beside\napp = rota.App(shop_beside.NAME)\n")
    assert load(target).name == "beside"
    assert sys.path[0] == str(folder / "deep/er")


@pytest.mark.parametrize("target", ["shop_pkg.web.app:app", "shop_pkg.web.app", "shop_pkg:main"])
def test_an_app_in_a_package(write, target):
    write("shop_pkg/__init__.py", "from shop_pkg.web.app import app as main\n")
    write("shop_pkg/web/__init__.py", "")
    write("shop_pkg/web/app.py", ONE)
    assert load(target).name == "one"


def test_the_module_is_where_typing_and_pickle_look(write):
    write("shop_app.py", ONE + "class Thing: ...\n")
    load("shop_app.py")
    thing = sys.modules["shop_app"].Thing()
    assert type(pickle.loads(pickle.dumps(thing))) is type(thing)


def test_one_of_several(write):
    write("shop_app.py", TWO)
    assert load("shop_app.py:b").name == "two"


def test_one_app_under_two_names_is_one(write):
    write("shop_app.py", ONE + "other = app\n")
    assert load("shop_app.py").name == "one"


def test_loading_again_runs_the_file_again(write):
    write("shop_app.py", ONE)
    first = load("shop_app.py")
    write("shop_app.py", 'import rota\napp = rota.App("changed")  # longer\n')
    assert first.name == "one"
    assert load("shop_app.py").name == "changed"


def test_two_folders_may_each_have_an_app(write):
    write("a/shop_app.py", 'import rota\napp = rota.App("a")\n')
    write("b/shop_app.py", 'import rota\napp = rota.App("b")\n')
    assert [load("a/shop_app.py").name, load("b/shop_app.py").name] == ["a", "b"]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", '"" names no app; write app.py, app.py:name, or package.module:name'),
        (":app", '":app" names no app'),
        ("shop_app.py:", '"shop_app.py:" names no app'),
        ("shop_ap.py", 'there is no file "shop_ap.py"; did you mean "shop_app.py"?'),
        ("zzz.py", 'there is no file "zzz.py"; check the name'),
        ("no/such/shop_app.py", 'there is no file "no/such/shop_app.py"; check the name'),
        ("folder", '"folder" is a folder; name a file in it, like folder/app.py'),
        ("folder/", '"folder/" is a folder; name a file in it, like folder/app.py'),
        ("folder/notes.txt", '"folder/notes.txt" is not a Python file; name one that ends in .py'),
        ("shop-app.py", 'cannot be imported under the name "shop-app"; rename it to letters, digits and "_"'),
        ("json.py", '"json.py" would take the place of the module "json"; rename it'),
        ("turtle.py", '"turtle.py" would take the place of the module "turtle"; rename it'),
        ("none.py", 'there is no rota.App in none.py; make one: app = rota.App("name")'),
        ("two.py", "there are several apps in two.py: a, b; choose one, like two.py:a"),
        ("shop_app.py:ap", 'there is no "ap" in shop_app.py; did you mean "app"?'),
        ("shop_app.py:zzz", 'there is no "zzz" in shop_app.py; check the name'),
        ("shop_app.py:rota", "shop_app.py:rota is a module, not a rota.App; name an App"),
        ("shop_nowhere:app", 'there is no module "shop_nowhere"; check the name and the folder'),
        ("shop_app.web:app", 'there is no module "shop_app.web": "shop_app" is not a package; check the name'),
        ("not a module", '"not a module" is neither a file nor a module; write app.py or package.module'),
        ("shop_circle.py", 'job "a": it comes after itself'),
        ("shop_after.py", 'job "a": after names "b", which is no job of this app; there are a'),
    ],
)
def test_what_is_not_found_is_told(write, target, says):
    write("shop_app.py", ONE)
    write("two.py", TWO)
    write("none.py", "x = 1\n")
    for name in ("shop-app.py", "json.py", "turtle.py"):
        write(name, ONE)
    write("folder/notes.txt", "")
    write("shop_circle.py", ONE + 'app.job(name="a", after="a")(lambda run: 1)\n')
    write("shop_after.py", ONE + 'app.job(name="a", after="b")(lambda run: 1)\n')
    with pytest.raises(Invalid) as told:
        load(target)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def broken(:\n", SyntaxError),
        ("import shop_not_installed\n", ModuleNotFoundError),
        ("raise SystemExit(3)\n", SystemExit),
        ("1 / 0\n", ZeroDivisionError),
        ('import rota\nrota.App("a b")\n', Invalid),
        ("raise KeyboardInterrupt\n", KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("target", ["shop_bad.py", "shop_bad", "shop_pkg.bad"])
def test_what_the_users_code_raises_passes_untouched(write, target, text, error):
    write("shop_bad.py", text)
    write("shop_pkg/__init__.py", "")
    write("shop_pkg/bad.py", text)
    with pytest.raises(error):
        load(target)
    assert "shop_bad" not in sys.modules


def test_an_error_in_the_package_above_is_the_users_too(write):
    write("shop_pkg/__init__.py", "import shop_not_installed\n")
    write("shop_pkg/app.py", ONE)
    with pytest.raises(ModuleNotFoundError, match="shop_not_installed"):
        load("shop_pkg.app")


def test_a_file_that_changed_within_a_second_comes_in_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "quick.py"
    for name in ("one", "two"):
        file.write_text(f'import rota\napp = rota.App("{name}")\n')
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert load(str(file)).name == name
