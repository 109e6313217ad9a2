"""What callers say beside a body when they ask for a plan."""

from collections.abc import Collection
from typing import Annotated

from rota.doors.parameters import FLAG, TEXTS, Parameter

Rebalance = Annotated[bool, Parameter("As if tasks were moved until the nodes are balanced.", True, FLAG)]
Without = Annotated[
    Collection[str], Parameter("As if these nodes were gone; may be given several times.", ["n1"], TEXTS)
]
Added = Annotated[
    int,
    Parameter("As if there were this many more nodes.", 2, {"type": "integer", "minimum": 0, "maximum": 1000}),
]
Like = Annotated[str, Parameter("The node that the added ones are like; the first one if left out.", "n1")]
