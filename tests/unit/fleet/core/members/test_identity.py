"""Which nodes belong to a fleet."""

from datetime import UTC, datetime

import pytest

from rota.fleet.core.members.identity import AdmittedNode, FleetClaim, StoreFacts, Stranger, enter
from rota.model.node import FleetRecord

NOW = datetime(2026, 11, 18, tzinfo=UTC)
EMPTY = StoreFacts()
ALONE = EMPTY
WITH_OTHERS = StoreFacts(nodes=("a", "b"))


def fleet(name: str, *apps: str, named: bool = False) -> FleetRecord:
    return FleetRecord(name=name, apps=apps, is_named=named, since=NOW)


@pytest.mark.parametrize(
    ("claim", "around", "record"),
    [
        pytest.param(FleetClaim(app="shop"), EMPTY, fleet("shop", "shop"), id="it is called after its app"),
        pytest.param(
            FleetClaim("prod", "shop"), EMPTY, fleet("prod", "shop", named=True), id="a name that was given wins"
        ),
        pytest.param(FleetClaim(), EMPTY, None, id="a node without app and name leaves it to others"),
        pytest.param(FleetClaim("prod"), EMPTY, fleet("prod", named=True), id="one without app can name it"),
        pytest.param(
            FleetClaim(app="shop"),
            StoreFacts(frozenset({"blog"}), ("b",)),
            fleet("shop", "blog", "shop"),
            id="who was there before there were records is not locked out",
        ),
    ],
)
def test_the_first_node_says_whose_store_it_is(
    claim: FleetClaim, around: StoreFacts, record: FleetRecord | None
) -> None:
    assert enter(claim, None, around, NOW) == AdmittedNode(record)


@pytest.mark.parametrize(
    ("claim", "found", "around", "becomes"),
    [
        pytest.param(
            FleetClaim(app="shop"), fleet("shop", "shop"), WITH_OTHERS, fleet("shop", "shop"), id="the same app"
        ),
        pytest.param(FleetClaim(), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="no app and no name"),
        pytest.param(
            FleetClaim("prod", "shop"), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="the same name"
        ),
        pytest.param(
            FleetClaim(app="shop"), fleet("prod", "shop", named=True), WITH_OTHERS, None, id="the app is known"
        ),
        pytest.param(FleetClaim("shop", "shop"), fleet("shop", "shop"), WITH_OTHERS, None, id="its app's name, given"),
        pytest.param(
            FleetClaim("shop", "store"),
            fleet("shop", "shop"),
            WITH_OTHERS,
            fleet("shop", "shop", "store"),
            id="an app with a new name, by the fleet's name",
        ),
        pytest.param(
            FleetClaim(app="shop"),
            fleet("prod", named=True),
            WITH_OTHERS,
            fleet("prod", "shop", named=True),
            id="first app",
        ),
        pytest.param(
            FleetClaim("prod", "shop"),
            fleet("shop", "shop"),
            ALONE,
            fleet("prod", "shop", named=True),
            id="a fleet whose nodes are stopped gets a name",
        ),
    ],
)
def test_a_node_of_the_fleet_joins(
    claim: FleetClaim, found: FleetRecord, around: StoreFacts, becomes: FleetRecord | None
) -> None:
    assert enter(claim, found, around, NOW) == AdmittedNode(becomes or found)


@pytest.mark.parametrize(
    ("claim", "found", "around", "why"),
    [
        pytest.param(
            FleetClaim(app="blog"),
            fleet("shop", "shop"),
            ALONE,
            "start the node once with --fleet shop (rota up: ROTA_FLEET=shop)",
            id="app",
        ),
        pytest.param(
            FleetClaim("staging", "shop"),
            fleet("prod", "shop", named=True),
            ALONE,
            "or correct fleet",
            id="another name",
        ),
        pytest.param(
            FleetClaim("staging", "shop"),
            fleet("shop", "shop"),
            WITH_OTHERS,
            "stop its nodes first: a, b",
            id="others run",
        ),
        pytest.param(
            FleetClaim("staging", "blog"),
            fleet("shop", "shop"),
            ALONE,
            "a namespace of its own",
            id="a name for strangers",
        ),
    ],
)
def test_a_node_of_another_fleet_is_refused_and_told_what_to_do(
    claim: FleetClaim, found: FleetRecord, around: StoreFacts, why: str
) -> None:
    refused = enter(claim, found, around, NOW)
    assert isinstance(refused, Stranger)
    assert why in refused.why
    assert f'the store holds the fleet "{found.name}"' in refused.why


def test_a_member_whose_app_gets_a_new_name_by_a_reload_may_come_back_under_it() -> None:
    after = enter(FleetClaim(app="store"), fleet("shop", "shop"), EMPTY, NOW, is_member=True)
    assert isinstance(after, AdmittedNode)
    assert after.record is not None
    assert enter(FleetClaim(app="store"), after.record, EMPTY, NOW) == after
