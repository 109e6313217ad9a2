"""A worker as dispatch sees it, and the workers of one group beside what waits for them."""

from collections import deque

from rota.services.core.dispatch.requests import PendingRequest, RequestQueue


class WorkerSeat:
    """A worker, as dispatch sees it: what it holds, and what is to be sent to it."""

    __slots__ = (
        "capacity", "generation", "grace", "group", "held", "is_free", "is_leaving", "is_touched", "late", "left",
        "outbox", "patience", "worker",
    )  # fmt: skip

    def __init__(self, worker: int, group: int, generation: int, capacity: int = 1, grace: float = 0.0) -> None:
        self.worker, self.group, self.generation = worker, group, generation
        self.capacity, self.grace = capacity, grace
        self.held: dict[int, PendingRequest] = {}
        self.late: set[int] = set()
        """Requests that it has held for too long. Until it returns them it may be stuck, and gets no others."""

        self.outbox: list[bytes] = []
        self.is_free = self.is_leaving = self.is_touched = False
        self.left = 0.0
        """When it was asked to leave; 0 if it was not."""

        self.patience = float("inf")
        """Seconds after which it is reported that the worker has not left."""


class WorkerGroup:
    """The workers of one group, and what waits for them."""

    __slots__ = ("active", "done", "free", "given", "is_known", "number", "queue", "seats")

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_known = False
        """Is the group in the table? One that is not finishes the requests it has."""

        self.active = 0
        """The generation whose seats get requests."""

        self.seats: dict[int, WorkerSeat] = {}
        self.free: deque[WorkerSeat] = deque()
        self.queue = RequestQueue()
        self.given = self.done = 0

    @property
    def in_flight(self) -> int:
        """Requests that its workers have."""
        return sum(len(seat.held) for seat in self.seats.values())

    def activate(self, generation: int) -> None:
        """Another generation gets the requests: its workers are the free ones."""
        self.active = generation
        self.free.clear()
        for seat in self.seats.values():
            is_able = not (seat.is_leaving or seat.late) and len(seat.held) < seat.capacity
            seat.is_free = is_able and seat.generation == generation
            if seat.is_free:
                self.free.append(seat)

    def take_from_free(self, seat: WorkerSeat) -> None:
        """A worker should get nothing more."""
        if seat.is_free:
            seat.is_free = False
            self.free.remove(seat)
