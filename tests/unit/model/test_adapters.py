"""What opens a scheme: Rota's own modules, and what other packages offer."""

from importlib.metadata import EntryPoint

import pytest

from rota.model import adapters
from rota.model.errors import Invalid
from rota.store.open import ADAPTERS as STORES

OWN = {"file": "rota.sinks.file", "memory": "rota.sinks.memory"}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that offer three schemes."""
    points = [
        EntryPoint("memory", "os", adapters.SINKS),
        EntryPoint("tar", "tarfile", adapters.SINKS),
        EntryPoint("broken", "there_is_no_such_module", adapters.SINKS),
        EntryPoint("empty", "json.decoder", adapters.SINKS),
    ]
    monkeypatch.setattr(adapters, "entry_points", lambda group: [point for point in points if point.group == group])


def test_a_package_may_offer_another_scheme() -> None:
    assert adapters.adapter("sink tar://x", "tar", OWN, {}, adapters.SINKS).__name__ == "tarfile"


def test_rotas_own_schemes_cannot_be_taken_over() -> None:
    assert adapters.adapter("sink memory://x", "memory", OWN, {}, adapters.SINKS).__name__ == "rota.sinks.memory"


@pytest.mark.parametrize(
    ("scheme", "meant"),
    [("postgres", "postgresql"), ("pg", "postgresql"), ("mariadb", "mysql"), ("sqlite3", "sqlite"), ("redis", None)],
)
def test_a_scheme_that_others_call_otherwise_is_suggested(scheme: str, meant: str | None) -> None:
    with pytest.raises(Invalid, match=f"unknown scheme {scheme}") as refused:
        adapters.adapter(f"store {scheme}://x", scheme, STORES, {})
    assert (f"(did you mean {meant}://?)" in str(refused.value)) == (meant is not None)
    assert ("did you mean" in str(refused.value)) == (meant is not None)


@pytest.mark.parametrize(
    ("scheme", "group", "why"),
    [
        ("smoke", adapters.SINKS, "unknown scheme smoke; Rota speaks file://, memory://, broken://, empty://, "),
        ("fil", adapters.SINKS, r"unknown scheme fil \(did you mean file://\?\); Rota speaks file://"),
        ("tar", adapters.SOURCES, "unknown scheme tar; Rota speaks file://, memory://$"),
        ("tar", None, "unknown scheme tar; Rota speaks file://, memory://$"),
        ("broken", adapters.SINKS, "there_is_no_such_module, which offers broken://, cannot be loaded: ModuleNotFound"),
        ("empty", adapters.SINKS, "json.decoder, which offers empty://, has no function open"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_reason(scheme: str, group: str | None, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        adapters.adapter(f"sink {scheme}://x", scheme, OWN, {}, group)
