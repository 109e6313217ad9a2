"""Due times over every clock change of twelve zones from 2026 to 2030, beside an oracle that walks minute by minute."""

from zoneinfo import ZoneInfo

import pytest

from tests.kit.clock_changes import ZONES, changes, disagreements

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ZONES)
def test_due_times_around_every_change_are_the_oracles(name):
    assert list(disagreements(name)) == []


def test_the_zones_change_in_these_years():
    counted = {name: len(list(changes(ZoneInfo(name)))) for name in ZONES}
    assert counted["Australia/Lord_Howe"] == counted["America/Santiago"] == counted["Europe/Berlin"] == 10
    assert sum(counted.values()) > 90
