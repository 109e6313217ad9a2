"""Store URLs, and where their passwords may be read."""

from datetime import timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import Invalid
from rota.store.url import DEFAULT_TIMEOUT, PASSWORD_VARIABLE, Options, StoreUrl, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory://", StoreUrl(scheme="memory")),
        ("memory://name", StoreUrl(scheme="memory", hosts=("name",))),
        ("sqlite:///rota.db", StoreUrl(scheme="sqlite", path="/rota.db")),
        ("sqlite:////var/rota.db", StoreUrl(scheme="sqlite", path="//var/rota.db")),
        ("sqlite:///a%20b.db", StoreUrl(scheme="sqlite", path="/a b.db")),
        ("etcd://h:1", StoreUrl(scheme="etcd", hosts=("h:1",))),
        ("etcd://h:1,i:2/p/q", StoreUrl(scheme="etcd", hosts=("h:1", "i:2"), path="/p/q")),
        ("etcd://u@h:1", StoreUrl(scheme="etcd", user="u", hosts=("h:1",))),
        ("etcd://u:p%40%2F:@h:1/", StoreUrl(scheme="etcd", user="u", password="p@/:", hosts=("h:1",), path="/")),
        ("etcd://h:1?a=1&b=", StoreUrl(scheme="etcd", hosts=("h:1",), options={"a": "1", "b": ""})),
    ],
)
def test_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "rota.db", "://h", "sqlite:/rota.db"])
def test_what_is_no_url_is_told_how_to_write_one(text):
    with pytest.raises(Invalid, match=r"sqlite:///rota\.db"):
        parse(text)


@pytest.mark.parametrize("text", ["etcd://u:secret@h?timeout", "etcd://u:secret@h?a=1&b"])
def test_what_is_no_option_is_told_how_to_write_one(text):
    with pytest.raises(Invalid, match="name=value") as error:
        parse(text)
    assert "secret" not in str(error.value)


@given(user=st.text(), password=st.text(min_size=1).map(lambda text: f"<{text}>"))
def test_a_password_is_read_and_never_shown(user, password):
    url = parse(f"etcd://{quote(user, safe='')}:{quote(password, safe='')}@h:1/p")
    assert (url.user or "", url.password) == (user, password)
    assert password not in str(url) or password in user
    assert password not in repr(url) or repr(password)[1:-1] in repr(user)


def test_a_url_shows_its_parts_but_not_its_options():
    assert str(parse("etcd://u:p@h:1,i:2/ns?timeout=2s")) == "etcd://u@h:1,i:2/ns"


def options(query: str) -> Options:
    return Options(parse(f"etcd://u:secret@h:1/ns?{query}"))


def test_options_are_handed_out_by_name():
    asked = options("timeout=250ms&mode=b&name=x")
    assert asked.timeout() == timedelta(milliseconds=250)
    assert asked.choice("mode", ("a", "b")) == "b"
    assert asked.text("name") == "x"
    assert asked.text("absent") is None
    asked.done()


def test_options_have_defaults():
    asked = Options(parse("etcd://h:1"))
    assert asked.timeout() == DEFAULT_TIMEOUT
    assert asked.choice("mode", ("a", "b")) == "a"
    assert asked.file("certificate") is None
    asked.done()


@pytest.mark.parametrize(
    ("query", "ask", "complaint"),
    [
        ("mode=c", lambda asked: asked.choice("mode", ("a", "b")), "mode=c is unknown; choose a or b"),
        ("timeout=5", Options.timeout, "timeout: .*not a duration"),
        ("timeout=0s", Options.timeout, "timeout=0s; it must be above zero"),
        ("ca=/no/such/file", lambda asked: asked.file("ca"), "cannot read ca /no/such/file: No such file"),
        ("colour=blue&shape=round", Options.done, "unknown option colour, shape"),
    ],
)
def test_a_bad_option_is_told_what_is_wrong(query, ask, complaint):
    with pytest.raises(Invalid, match=complaint) as error:
        ask(options(query))
    assert "etcd://u@h:1/ns" in str(error.value)
    assert "secret" not in str(error.value)


def test_an_unknown_option_is_told_the_known_ones():
    asked = options("tiemout=1s")
    asked.timeout()
    with pytest.raises(Invalid, match="unknown option tiemout; known are timeout"):
        asked.done()


def test_a_password_comes_from_its_file_before_the_url_before_the_environment(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("from file\n")
    monkeypatch.setenv(PASSWORD_VARIABLE, "from environment")
    assert Options(parse(f"etcd://u:url@h?password_file={secret}")).password() == "from file"
    assert Options(parse("etcd://u:url@h")).password() == "url"
    assert Options(parse("etcd://u@h")).password() == "from environment"
    monkeypatch.delenv(PASSWORD_VARIABLE)
    assert Options(parse("etcd://u@h")).password() is None
