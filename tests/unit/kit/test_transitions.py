"""Tables of phases and events."""

from enum import Enum, IntEnum, auto
from itertools import product

import pytest

from rota.kit.transitions import IllegalTransition, Transitions


class Light(Enum):
    OFF = auto()
    ON = auto()
    BURNT_OUT = auto()


class Event(Enum):
    SWITCHED = auto()
    BROKE = auto()


def light(**changes: dict[Event, Light]) -> Transitions[Light, Event]:
    table = {
        Light.OFF: {Event.SWITCHED: Light.ON},
        Light.ON: {Event.SWITCHED: Light.OFF, Event.BROKE: Light.BURNT_OUT},
        Light.BURNT_OUT: {},
        **{Light[name]: row for name, row in changes.items()},
    }
    return Transitions(table, first=(Light.OFF,), final=(Light.BURNT_OUT,))


def test_an_event_leads_to_the_phase_in_the_table_and_any_other_is_illegal() -> None:
    table, found = light(), {}
    for phase, event in product(Light, Event):
        if table.allows(phase, event):
            found[phase, event] = table.after(phase, event)
            assert table.by(event)[phase] is found[phase, event]
            continue
        with pytest.raises(IllegalTransition, match="cannot happen in"):
            table.after(phase, event)
        assert phase not in table.by(event)
    assert found == {
        (Light.OFF, Event.SWITCHED): Light.ON,
        (Light.ON, Event.SWITCHED): Light.OFF,
        (Light.ON, Event.BROKE): Light.BURNT_OUT,
    }


def test_a_sound_table_has_no_faults() -> None:
    assert light().faults() == []


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        pytest.param({"OFF": {}}, ["ON is never reached", "BURNT_OUT is never reached", "OFF is a trap"], id="a trap"),
        pytest.param(
            {"ON": {Event.SWITCHED: Light.OFF}},
            ["BROKE never happens", "BURNT_OUT is never reached", "OFF is a trap", "ON is a trap"],
            id="an event without use",
        ),
        pytest.param({"BURNT_OUT": {Event.SWITCHED: Light.OFF}}, ["BURNT_OUT is final and goes on"], id="no end"),
        pytest.param({"BURNT_OUT": {Event.BROKE: Light.BURNT_OUT}}, [], id="a late word at the end"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(changes: dict[str, dict[Event, Light]], faults: list[str]) -> None:
    found = light(**changes).faults()
    assert len(found) == len(faults), found
    for said, words in zip(found, faults, strict=True):
        name, rest = words.split(" ", 1)
        assert f".{name}" in said
        assert rest in said


def test_a_phase_without_a_row_is_a_fault() -> None:
    table = light().table
    left_out = Transitions({Light.ON: table[Light.ON], Light.OFF: table[Light.OFF]}, first=(Light.OFF,), final=())
    assert any("BURNT_OUT" in fault and "has no row" in fault for fault in left_out.faults())


def test_a_table_is_drawn() -> None:
    assert light().diagram().splitlines() == [
        "stateDiagram-v2",
        '    state "burnt out" as burnt_out',
        "    [*] --> off",
        "    off --> on: switched",
        "    on --> off: switched",
        "    on --> burnt_out: broke",
        "    burnt_out --> [*]",
    ]


def test_many_ends_are_drawn_as_one_box_and_a_record_that_is_gone_as_the_end() -> None:
    class Way(IntEnum):
        HERE = auto()
        A = auto()
        B = auto()
        C = auto()
        TOO_FAR = auto()

    class Turn(IntEnum):
        A = auto()
        B = auto()
        C = auto()
        LOST = auto()

    ends = [Way.A, Way.B, Way.C, Way.TOO_FAR]
    rows = {Way.HERE: dict(zip(Turn, ends, strict=True)), **{end: dict[Turn, Way]() for end in ends}}
    drawn = Transitions(rows, first=(Way.HERE,), final=ends).diagram()
    assert "    here --> over: a, b, c, lost (too far)\n    over --> [*]" in drawn
    assert '        state "too far" as too_far\n    }' in drawn

    gone = Transitions[Way | None, Turn]({Way.HERE: {Turn.A: None}, None: {}}, first=(Way.HERE,), final=(None,))
    assert gone.diagram().splitlines()[1:] == ["    [*] --> here", "    here --> [*]: a"]
