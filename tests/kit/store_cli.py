"""The command line, called on a store."""

from pathlib import Path

from tests.kit.cli import Answer, rota


def call(url: str, *arguments: object) -> Answer:
    return rota(*arguments, cwd=Path(url.removeprefix("sqlite:///")).parent, environ={"ROTA_STORE": url})
