"""The outbox: in order, bounded, and nothing leaves it without an ack."""

from rota.model.ids import Instant
from rota.relay.core.held import OVERHEAD, Emission, RefusedMessage
from rota.relay.core.outbox import Outbox
from tests.kit.sinks import message, numbers

T0 = Instant(100.0)


def filled(count: int, *, most: int = 100) -> Outbox:
    outbox = Outbox(most, 10**9)
    for number in range(count):
        outbox.put(emission(number), Instant(T0 + number))
    return outbox


def emission(number: int, size: int = 0) -> Emission:
    return Emission(message(number, payload=b"x" * size), "memory://", 0, 1)


def batch(outbox: Outbox, most: int = 100, most_bytes: int = 10**9) -> tuple[int, list[int]]:
    taken = outbox.take(most, most_bytes)
    assert taken is not None
    return taken.sequence, numbers(one.message for one in taken.emissions)


def test_batches_are_numbered_and_in_order() -> None:
    outbox = filled(5)
    assert batch(outbox, 3) == (1, [0, 1, 2])
    assert batch(outbox, 3) == (2, [3, 4])
    assert outbox.take(3, 10**9) is None
    assert outbox.held == 5


def test_an_ack_says_which_messages_were_refused_by_their_numbers() -> None:
    outbox = filled(6)
    for _ in range(3):
        batch(outbox, 2)
    outbox.acked(1)
    refused = [RefusedMessage(2, message(3).id, "too large"), RefusedMessage(3, message(3).id, "of another batch")]
    assert outbox.acked(3, refused) == {4: "too large"}
    assert outbox.held == 0


def test_an_ack_stands_for_all_batches_up_to_it() -> None:
    outbox = filled(6)
    for _ in range(3):
        batch(outbox, 2)
    outbox.acked(2)
    assert (outbox.acked_count, outbox.held) == (4, 2)
    outbox.acked(2)
    assert outbox.acked_count == 4
    outbox.acked(3)
    assert outbox.held == 0


def test_what_has_no_ack_goes_again_on_the_next_line_in_order() -> None:
    outbox = filled(6)
    batch(outbox, 2)
    batch(outbox, 2)
    outbox.acked(1)
    outbox.broke()
    assert batch(outbox) == (1, [2, 3, 4, 5])
    outbox.acked(1)
    assert outbox.held == 0


def test_there_is_room_for_so_many_messages() -> None:
    outbox = filled(3, most=3)
    assert not outbox.has_room
    batch(outbox, 1)
    assert not outbox.has_room, "it was handed over, and not acked"
    outbox.acked(1)
    assert outbox.has_room


def test_there_is_room_for_so_many_bytes_and_a_large_one_finds_its_place() -> None:
    outbox = Outbox(100, 2 * OVERHEAD)
    outbox.put(emission(0, size=10 * OVERHEAD), T0)
    assert not outbox.has_room
    batch(outbox)
    outbox.acked(1)
    assert outbox.has_room


def test_a_batch_ends_with_the_message_that_fills_it() -> None:
    outbox = Outbox(100, 10**9)
    for number in range(4):
        outbox.put(emission(number, size=600), T0)
    assert batch(outbox, most_bytes=1000) == (1, [0, 1])


def test_its_age_is_that_of_the_oldest_without_an_ack() -> None:
    outbox = filled(4)
    assert outbox.age(Instant(T0 + 10)) == 10
    batch(outbox, 2)
    assert outbox.age(Instant(T0 + 10)) == 10
    outbox.acked(1)
    assert outbox.age(Instant(T0 + 10)) == 8
    batch(outbox)
    outbox.acked(2)
    assert outbox.age(Instant(T0 + 10)) is None


def test_a_batch_without_messages_has_no_age_and_is_acked_like_any_other() -> None:
    outbox = filled(0)
    assert outbox.ping().emissions == []
    outbox.put(emission(1), Instant(T0 + 5))
    batch(outbox)
    assert outbox.age(Instant(T0 + 6)) == 1
    outbox.acked(2)
    assert outbox.held == 0
