"""Paces: how many attempts of a job an executor may hold at a time, by how long they take. Pure.

Handing out one attempt and waiting for its answer costs a round trip, which for short runs is longer than the run. So
an executor may hold several of these; those behind the first wait a few milliseconds, and are taken back if it takes
longer than it used to. A job without attempts so far counts as long.
"""

DEPTHS = ((0.002, 8), (0.005, 4), (0.020, 2))
"""Pairs of `seconds` and `limit`: an executor may hold `limit` attempts of a job whose attempts take less than
`seconds`."""

WEIGHT = 0.2
"""The weight of the newest attempt in the average."""


class Paces:
    """The average duration of each job's attempts."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._depths: dict[str, int] = {}

    def note(self, job: str, seconds: float) -> None:
        """An attempt took this long. One that took much longer than expected outweighs all before it."""
        known = self._seconds.get(job, seconds)
        mean = known + WEIGHT * (seconds - known)
        if seconds > DEPTHS[-1][0]:
            mean = max(mean, seconds)
        self._seconds[job] = mean
        self._depths[job] = next((depth for limit, depth in DEPTHS if mean < limit), 1)

    def depth(self, job: str) -> int:
        """How many attempts of a job an executor may hold."""
        return self._depths.get(job, 1)
