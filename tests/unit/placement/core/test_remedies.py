"""What would have to change on a node for it to take a resource that waits."""

import pytest

from rota.model.ids import NodeId
from rota.placement.core import Demand, Place, Rule, remedies
from rota.resources.core.records import Affinity
from tests.unit.placement.core.builders import demand, node


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        pytest.param(demand("r"), node("a", 3, 3), "give it 1 more slot (rota nodes slots a 4)", id="slots"),
        pytest.param(
            demand("r", cost=4), node("a", 3, 2), "give it 3 more slots (rota nodes slots a 6)", id="a large task"
        ),
        pytest.param(
            demand("r"),
            node("a", is_open=False, why_closed="it is cordoned"),
            "uncordon it (rota nodes uncordon a)",
            id="cordon",
        ),
        pytest.param(
            demand("r"),
            node("a", is_open=False, why_closed="it is drained: disk"),
            "undrain it (rota nodes undrain a)",
            id="drain",
        ),
        pytest.param(
            demand("r", labels={"gpu": "yes", "cpu": "a b"}),
            node("a"),
            "label it gpu=yes and cpu=a b (rota nodes label a gpu=yes 'cpu=a b')",
            id="label",
        ),
        pytest.param(demand("r", kind="shop"), node("a"), 'start an app there that declares kind "shop"', id="kind"),
        pytest.param(
            demand("r", labels={"gpu": "yes"}),
            node("a", 1, 1, is_open=False),
            "label it gpu=yes (rota nodes label a gpu=yes) and uncordon it (rota nodes uncordon a) "
            "and give it 1 more slot (rota nodes slots a 2)",
            id="all at once",
        ),
    ],
)
def test_what_to_do_about_a_node(wanted: Demand, there: Place, expected: str) -> None:
    assert remedies(wanted, [there]) == {"a": expected}


def test_nothing_is_said_of_nodes_that_nothing_helps() -> None:
    class Never(Rule):
        def refuse(self, about: object, node: Place) -> str:
            return "never"

    places = [node("a", 1, 1), node("b", 1, 1)]
    assert remedies(demand("r", 1, "a"), places) == {"b": "give it 1 more slot (rota nodes slots b 2)"}
    assert remedies(demand("r", pin=NodeId("b")), places) == {"b": "give it 1 more slot (rota nodes slots b 2)"}
    assert remedies(demand("r"), places, {"never": Never()}) == {}
    assert remedies(demand("r", affinity=Affinity(near={"app": "db"})), places) == {}
