"""Every place that takes a secret is known, and no secret is seen anywhere but where it was put."""

from pathlib import Path

import pytest

from rota.cli import settings
from rota.model import url as urls
from rota.model.config import NodeConfig
from rota.model.errors import Invalid
from tests.kit import canaries
from tests.kit.canaries import DECLARED, SETTINGS, aviary, canary
from tests.kit.server_pool import ServerPool
from tests.kit.servers import Postgres


def test_every_place_that_takes_a_secret_has_its_canary() -> None:
    assert canaries.secret_settings() == set(SETTINGS), "say in tests/kit/canaries.py what is planted there"
    assert canaries.secret_parameters() == set(DECLARED), "is it harmless? Say so in tests/kit/canaries.py"


@pytest.mark.parametrize("given", ["ann:{}@host/x", "://ann:{}@host", "amqp://a:{}/b@host"])
def test_a_url_that_is_refused_does_not_show_its_password(given: str) -> None:
    secret = canary("relay_sink")
    with pytest.raises(Invalid) as refused:
        urls.parse(given.format(secret), "sink", "amqp://host")
    assert secret[:4] not in str(refused.value)


def test_a_token_that_is_no_reference_is_not_repeated() -> None:
    with pytest.raises(Invalid) as refused:
        settings.resolve(NodeConfig, environ={"ROTA_STORE": "sqlite:///x", "ROTA_TOKEN": canary("token")})
    assert canary("token") not in str(refused.value)


@pytest.mark.needs("postgresql")
@pytest.mark.needs("chromium")
async def test_no_secret_is_seen_anywhere(servers: ServerPool, tmp_path: Path) -> None:
    async with aviary(tmp_path, servers.get(Postgres, "steady"), "canaries") as found:
        seen = await found.seen()
        assert len(seen) > 150
        assert found.leaks(seen) == []
        assert found.open_files() == []
