"""The chain of the audit trail: whatever is done to it is found."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.fleet.core.audit.chain import Verifier, seal
from rota.fleet.core.audit.record import AuditEntry, AuditHead, AuditLink, Changed
from rota.kit.record import replace

AT = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)


def entry(number: int, **more: str) -> AuditEntry:
    changes = [Changed(key=f"/k/{number}", before=None, after="1")]
    told = {"by": "ada", "origin": "command box", "what": "rota try", **more}
    return AuditEntry(id=str(number), at=AT, changes=changes, **told)


CHAIN, HEAD = seal(AuditHead(), [entry(number) for number in range(6)])


def flaw(links: list[AuditLink], head: AuditHead = HEAD, noted: str = "") -> str:
    verifier = Verifier(head, noted)
    for link in links:
        verifier.walk(link)
    return verifier.end()


def test_a_chain_that_was_left_alone_is_whole() -> None:
    assert flaw(CHAIN) == ""
    assert flaw(CHAIN, noted=CHAIN[2].hash) == ""
    assert flaw([], AuditHead()) == ""


def test_sealing_in_pieces_gives_the_same_chain() -> None:
    first, middle = seal(AuditHead(), [entry(number) for number in range(2)])
    rest, end = seal(middle, [entry(number) for number in range(2, 6)])
    assert ([*first, *rest], end) == (CHAIN, HEAD)


def test_a_chain_whose_beginning_was_cleared_away_is_whole_from_there_on() -> None:
    head = replace(HEAD, first=4, before_first=CHAIN[2].hash)
    assert flaw(CHAIN[3:], head) == ""
    assert flaw(CHAIN[3:], head, noted=CHAIN[2].hash) == ""
    assert "is missing" in flaw(CHAIN[4:], head)


@given(st.integers(0, 5), st.sampled_from(["by", "origin", "what", "refused", "id"]), st.text())
def test_an_entry_that_was_changed_is_named(place: int, field: str, text: str) -> None:
    told = CHAIN[place].entry
    meddled = replace(told, **{field: text})
    links = [*CHAIN]
    links[place] = replace(CHAIN[place], entry=meddled)
    assert flaw(links) == (
        "" if meddled == told else f"link {place + 1} was changed: its hash does not fit what it says"
    )


@pytest.mark.parametrize("place", range(6))
def test_a_link_that_was_taken_out_is_missed(place: int) -> None:
    assert flaw([link for number, link in enumerate(CHAIN) if number != place])


def test_a_chain_that_was_written_anew_does_not_hold_the_hash_somebody_noted() -> None:
    forged, head = seal(AuditHead(), [entry(number, by="mallory") for number in range(6)])
    assert flaw(forged, head) == ""
    assert "rewritten" in flaw(forged, head, noted=CHAIN[3].hash)


def test_links_that_changed_places_are_found() -> None:
    assert flaw([CHAIN[1], CHAIN[0], *CHAIN[2:]])
    assert flaw([*CHAIN, CHAIN[-1]])


def test_a_noted_hash_that_retention_has_cleared_is_a_doubt_and_not_an_alarm() -> None:
    """Older than the link before the first one, it cannot be met any more; nor can it be shown that it was there."""
    head = AuditHead(number=HEAD.number, hash=HEAD.hash, first=4, before_first=CHAIN[2].hash)
    verifier = Verifier(head, CHAIN[0].hash)
    for link in CHAIN[3:]:
        verifier.walk(link)
    assert verifier.end() == ""
    assert "retention has cleared" in verifier.doubt
    whole = Verifier(head, CHAIN[2].hash)
    for link in CHAIN[3:]:
        whole.walk(link)
    assert (whole.end(), whole.doubt) == ("", "")
