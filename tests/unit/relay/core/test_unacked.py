"""What one receiver has not acked: numbered batches, cumulative acks, and everything again when the way breaks."""

from rota.relay.core.unacked import Unacked


def filled(*messages: str) -> Unacked[str]:
    unacked: Unacked[str] = Unacked()
    unacked.queue.extend(messages)
    return unacked


def test_an_ack_stands_for_all_batches_up_to_it_once() -> None:
    unacked = filled("a", "b", "c")
    assert [unacked.hand_over(1), unacked.hand_over(0), unacked.hand_over(2)] == [(1, ["a"]), (2, []), (3, ["b", "c"])]
    assert unacked.acked(2) == [(1, ["a"]), (2, [])]
    assert unacked.acked(2) == []
    assert unacked.acked(3) == [(3, ["b", "c"])]


def test_what_has_no_ack_goes_again_in_order_and_is_numbered_afresh() -> None:
    unacked = filled("a", "b", "c", "d")
    for count in (1, 1, 1):
        unacked.hand_over(count)
    unacked.acked(1)
    unacked.broke()
    assert unacked.acked(3) == [], "an ack of the way before stands for nothing"
    assert unacked.hand_over(3) == (1, ["b", "c", "d"])


def test_the_oldest_is_the_first_without_an_ack() -> None:
    unacked = filled("a", "b")
    unacked.hand_over(0)
    assert unacked.oldest == "a"
    unacked.hand_over(1)
    unacked.acked(2)
    assert unacked.oldest == "b"
    unacked.hand_over(1)
    unacked.acked(3)
    assert unacked.oldest is None
