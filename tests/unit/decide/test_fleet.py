"""Which nodes belong to a fleet."""

from datetime import UTC, datetime

import pytest

from rota.decide.fleet import Admitted, Claim, Stranger, Surroundings, enter
from rota.model.node import FleetRecord

NOW = datetime(2026, 11, 18, tzinfo=UTC)
EMPTY = Surroundings()
ALONE = EMPTY
WITH_OTHERS = Surroundings(nodes=("a", "b"))


def fleet(name: str, *apps: str, named: bool = False) -> FleetRecord:
    return FleetRecord(name=name, apps=apps, is_named=named, since=NOW)


@pytest.mark.parametrize(
    ("claim", "around", "record"),
    [
        pytest.param(Claim(app="shop"), EMPTY, fleet("shop", "shop"), id="it is called after its app"),
        pytest.param(Claim("prod", "shop"), EMPTY, fleet("prod", "shop", named=True), id="a name that was given wins"),
        pytest.param(Claim(), EMPTY, None, id="a node without app and name leaves it to others"),
        pytest.param(Claim("prod"), EMPTY, fleet("prod", named=True), id="one without app can name it"),
        pytest.param(
            Claim(app="shop"),
            Surroundings(frozenset({"blog"}), ("b",)),
            fleet("shop", "blog", "shop"),
            id="who was there before there were records is not locked out",
        ),
    ],
)
def test_the_first_node_says_whose_store_it_is(claim: Claim, around: Surroundings, record: FleetRecord | None) -> None:
    assert enter(claim, None, around, NOW) == Admitted(record)


@pytest.mark.parametrize(
    ("claim", "found", "around", "becomes"),
    [
        pytest.param(Claim(app="shop"), fleet("shop", "shop"), WITH_OTHERS, fleet("shop", "shop"), id="the same app"),
        pytest.param(Claim(), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="no app and no name"),
        pytest.param(Claim("prod", "shop"), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="the same name"),
        pytest.param(Claim(app="shop"), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="the app is known"),
        pytest.param(Claim("shop", "shop"), fleet("shop", "shop"), WITH_OTHERS, None, id="its app's name, given"),
        pytest.param(
            Claim("shop", "store"),
            fleet("shop", "shop"),
            WITH_OTHERS,
            fleet("shop", "shop", "store"),
            id="an app with a new name, by the fleet's name",
        ),
        pytest.param(
            Claim(app="shop"), fleet("prod", named=True), WITH_OTHERS, fleet("prod", "shop", named=True), id="first app"
        ),
        pytest.param(
            Claim("prod", "shop"),
            fleet("shop", "shop"),
            ALONE,
            fleet("prod", "shop", named=True),
            id="a fleet whose nodes are stopped gets a name",
        ),
    ],
)
def test_a_node_of_the_fleet_joins(
    claim: Claim, found: FleetRecord, around: Surroundings, becomes: FleetRecord | None
) -> None:
    assert enter(claim, found, around, NOW) == Admitted(becomes or found)


@pytest.mark.parametrize(
    ("claim", "found", "around", "why"),
    [
        pytest.param(
            Claim(app="blog"),
            fleet("shop", "shop"),
            ALONE,
            "start the node once with --fleet shop (rota up: ROTA_FLEET=shop)",
            id="app",
        ),
        pytest.param(
            Claim("staging", "shop"), fleet("prod", "shop", named=True), ALONE, "or correct fleet", id="another name"
        ),
        pytest.param(
            Claim("staging", "shop"), fleet("shop", "shop"), WITH_OTHERS, "stop its nodes first: a, b", id="others run"
        ),
        pytest.param(
            Claim("staging", "blog"), fleet("shop", "shop"), ALONE, "a namespace of its own", id="a name for strangers"
        ),
    ],
)
def test_a_node_of_another_fleet_is_refused_and_told_what_to_do(
    claim: Claim, found: FleetRecord, around: Surroundings, why: str
) -> None:
    refused = enter(claim, found, around, NOW)
    assert isinstance(refused, Stranger)
    assert why in refused.why
    assert f'the store holds the fleet "{found.name}"' in refused.why


def test_a_member_whose_app_gets_a_new_name_by_a_reload_may_come_back_under_it() -> None:
    after = enter(Claim(app="store"), fleet("shop", "shop"), EMPTY, NOW, is_member=True)
    assert isinstance(after, Admitted)
    assert after.record is not None
    assert enter(Claim(app="store"), after.record, EMPTY, NOW) == after
