"""Fleets as people draw them: what is read, and what is said of mistakes."""

import pytest

from rota.model.errors import Invalid
from rota.sim.sketch import read

NODES = '[[nodes]]\nname = "n"\ncount = 2\n'


def test_a_group_of_nodes_is_named_by_number_and_one_alone_by_its_name() -> None:
    sketch = read(f'{NODES}[[nodes]]\nname = "big"\n', "fleet.toml")
    assert sketch.node_names() == ["n-1", "n-2", "big"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("nodes = 3", "Expected `array`", id="another type"),
        pytest.param("[[nodes]]\nname = ", "fleet.toml: ", id="no TOML"),
        pytest.param(f"{NODES}colour = 3\n", "unknown field `colour`", id="a word that nobody knows"),
        pytest.param('[[nodes]]\nname = "a"\ncount = 0\n', 'node "a"', id="no nodes"),
        pytest.param('[[nodes]]\nname = "a"\ncount = 900\n', "draw 1 to 200", id="too many nodes"),
        pytest.param(f"{NODES}{NODES}", 'node "n-1" is there twice', id="a name twice"),
        pytest.param(f'lasts = "3 days"\n{NODES}', "not a duration", id="no duration"),
        pytest.param(f'lasts = "3h"\n{NODES}', "write 10s to 2h", id="too long"),
        pytest.param(
            f'{NODES}[[resources]]\nname = "r"\naffinity = {{ beside = {{}} }}\n', "there are prefer", id="affinity"
        ),
    ],
)
def test_a_mistake_is_named_with_the_next_move(text: str, words: str) -> None:
    with pytest.raises(Invalid) as told:
        read(text, "fleet.toml")
    assert words in str(told.value)
    assert str(told.value).startswith("fleet.toml: ")
