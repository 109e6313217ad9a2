"""The command line with every click that the metadata allow; `make show-doors` tries other Pythons too."""

import sys
import tomllib
from pathlib import Path

import pytest

from tests.kit.clicks import PYTHONS, check_every_command, installed, oldest
from tests.kit.process import ROOT


@pytest.mark.parametrize("click", [oldest(), "click==8.2.0", "click==8.3.0", "click"])
def test_every_command_works_with_every_click_that_is_allowed(click: str, tmp_path: Path) -> None:
    check_every_command(click, tmp_path)


def test_the_pythons_to_try_begin_with_the_oldest_that_is_allowed_and_this_one_is_found() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in installed()
