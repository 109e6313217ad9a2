"""What a stream task has made of its sequences and not published yet: rows in drafts, and records put aside."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rota.outputs.port import Committer, Draft, KeepsLetters, Letter
from rota.streams.core.manifest import Offsets
from rota.streams.task.assigned import Assigned, SequenceLimits
from rota.streams.task.letters import letter_of
from rota.streams.task.transform import DeadLetter, Rows, TransformResult

UNREADABLE, UNFIT = "not readable", "does not fit"


class Drafts:
    """The drafts of one task, by sequence."""

    def __init__(
        self, assigned: Assigned, committer: Committer, put_aside: Callable[[Sequence[DeadLetter]], None]
    ) -> None:
        self._assigned, self._committer, self._put_aside = assigned, committer, put_aside
        self._drafts: dict[int, Draft] = {}
        self._aside: dict[int, set[tuple[int, int]]] = {}
        """Sequence → its records that were put aside, by partition and offset."""

        self._letters: dict[int, list[Letter]] = {}
        """By sequence: dead letters that are published with it, where the output keeps them."""

        self.rows = 0
        """Rows made so far."""

        self.dropped: Counter[str] = Counter()
        """Records that became no rows, by reason."""

    def draft(self, number: int, starts: Offsets) -> Draft:
        """The draft of a sequence; it is made when it is first needed, which may be never until its publish."""
        if number not in self._drafts:
            self._drafts[number] = self._committer.draft(str(self._assigned), starts)
        return self._drafts[number]

    def append(self, number: int, starts: Offsets, made: Iterable[Rows]) -> None:
        """Add rows to a sequence."""
        for rows in made:
            draft = self.draft(number, starts)
            before = draft.rows
            draft.append(rows)
            self.rows += draft.rows - before

    def replace(self, number: int, draft: Draft) -> None:
        """A sequence was made again."""
        before, self._drafts[number] = self._drafts[number], draft
        self.rows += draft.rows - before.rows
        before.discard()

    def drop(self, number: int, made: TransformResult) -> None:
        """Put records of a sequence aside, and count them; those that are aside already stay as they are."""
        known = self._aside.setdefault(number, set())
        for why, letters in ((UNREADABLE, made.letters), (UNFIT, made.unfit)):
            if fresh := [each for each in letters if _place(each) not in known]:
                if isinstance(self._committer, KeepsLetters):
                    self._letters.setdefault(number, []).extend(
                        letter_of(self._assigned.stream, each) for each in fresh
                    )
                else:
                    self._put_aside(fresh)
                self.dropped[why] += len(fresh)
                known.update(map(_place, fresh))

    def letters(self, number: int) -> Sequence[Letter]:
        """The dead letters that are published with a sequence."""
        return self._letters.get(number, ())

    def fullness(self, number: int, limits: SequenceLimits) -> str:
        """What a sequence has too much of; nothing if more fits in."""
        if (draft := self._drafts.get(number)) is not None:
            if draft.rows >= limits.rows:
                return f"it has {draft.rows} rows"
            if draft.bytes >= limits.bytes:
                return f"it has {draft.bytes} bytes"
        letters = sum(len(each.line) for each in self.letters(number))
        return f"it has {letters} bytes of dead letters" if letters >= limits.letters else ""

    def decided(self, number: int) -> None:
        """A sequence is published, by this task or another."""
        self._drafts.pop(number).discard()
        self._aside.pop(number, None)
        self._letters.pop(number, None)

    def discard(self) -> None:
        """Give up all that is not published."""
        for draft in self._drafts.values():
            draft.discard()


def _place(letter: DeadLetter) -> tuple[int, int]:
    return letter.record.partition, letter.record.offset
