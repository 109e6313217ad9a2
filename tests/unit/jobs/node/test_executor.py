"""An executor that is asked to end, at whatever moment, has run the order or has left it where the agent finds it."""

import socket

from rota.jobs.node.executor import OrderQueue
from rota.jobs.node.run_attempt import AttemptStop
from tests.kit.interrupting import at_every_line


class Post:
    """An inbox with one order in it, and whoever reads it."""

    def __init__(self) -> None:
        self.agent, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inbox = OrderQueue(self.theirs, AttemptStop())
        self.agent.send(b"order")
        self.taken = b""

    def take(self) -> None:
        self.taken = self.inbox.next()

    def left(self) -> bytes:
        """What is left in the socket, from which the agent takes it back."""
        try:
            return self.theirs.recv(100, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.agent.close()
        self.theirs.close()


def test_an_order_is_run_or_left_whenever_the_executor_is_asked_to_end() -> None:
    ends = set()
    for post in at_every_line(Post, Post.take, lambda post: post.inbox.asked()):
        ends.add((post.taken, post.left()))
        post.close()
    assert ends == {(b"order", b""), (b"", b"order")}


def test_an_executor_takes_nothing_after_it_was_asked_to_end() -> None:
    post = Post()
    post.inbox.asked()
    post.take()
    assert (post.taken, post.left()) == (b"", b"order")
    post.close()


def test_an_executor_ends_when_the_agent_is_gone() -> None:
    post = Post()
    post.agent.close()
    post.take()
    assert post.taken == b"order"
    assert post.inbox.next() == b""
    post.close()
