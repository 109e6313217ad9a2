"""The phases of a message at a relay: `TABLE`, and for each event what it makes of each phase.

A relay has thousands of messages a second, so a step is one look-up: `held.phase = AFTER_TAKEN[held.phase]`. Phases are
ints, which are hashed at once. A message that the sink and the spool have at the same time has phases of its own: the
first to finish settles it, and the other must find that out.

An event that the phase does not allow is a bug. It raises KeyError with the phase before any ack is sent, so the sender
still has the message.
"""

from enum import IntEnum, auto

from rota.kit.transitions import Transitions


class HeldPhase(IntEnum):
    """Where a message is."""

    WAITING = auto()
    """In memory only: for this relay's sink, for another relay, or until it is known where to."""

    UNDER_WAY = auto()
    """The sink has taken it."""

    WRITING = auto()
    """The spool is writing it."""

    SPOOLED = auto()
    """On disk only."""

    UNDER_WAY_WRITING = auto()
    UNDER_WAY_SPOOLED = auto()
    """The sink has taken it, and it is on disk too, where it is not read back yet."""

    ANSWERED_WRITING = auto()
    """The sink has reported the outcome, while the spool is still writing the message."""

    READ_BACK = auto()
    """It was read from the disk, and waits for the sink."""

    UNDER_WAY_READ = auto()
    """As UNDER_WAY_SPOOLED, but the spool has been read past it."""

    DONE = auto()
    """Its outcome is known, or another relay has it."""


class HeldEvent(IntEnum):
    """What happens to a message."""

    TAKEN = auto()
    """The sink has taken it."""

    ANSWERED = auto()
    """The sink has confirmed or rejected it."""

    WRITE_BEGUN = auto()
    WRITTEN = auto()
    WRITE_REFUSED = auto()
    READ_PAST = auto()
    """The spool was read up to behind it; its record may have been found damaged."""

    HANDED_ON = auto()
    """Its home has acked it; or this relay has become its home, where it starts anew."""


TABLE = Transitions(
    {
        HeldPhase.WAITING: {
            HeldEvent.TAKEN: HeldPhase.UNDER_WAY,
            HeldEvent.WRITE_BEGUN: HeldPhase.WRITING,
            HeldEvent.HANDED_ON: HeldPhase.DONE,
        },
        HeldPhase.UNDER_WAY: {
            HeldEvent.ANSWERED: HeldPhase.DONE,
            HeldEvent.WRITE_BEGUN: HeldPhase.UNDER_WAY_WRITING,
        },
        HeldPhase.WRITING: {
            HeldEvent.WRITTEN: HeldPhase.SPOOLED,
            HeldEvent.WRITE_REFUSED: HeldPhase.WAITING,
        },
        HeldPhase.SPOOLED: {},
        HeldPhase.UNDER_WAY_WRITING: {
            HeldEvent.ANSWERED: HeldPhase.ANSWERED_WRITING,
            HeldEvent.WRITTEN: HeldPhase.UNDER_WAY_SPOOLED,
            HeldEvent.WRITE_REFUSED: HeldPhase.UNDER_WAY,
        },
        HeldPhase.UNDER_WAY_SPOOLED: {
            HeldEvent.ANSWERED: HeldPhase.DONE,
            HeldEvent.READ_PAST: HeldPhase.UNDER_WAY_READ,
        },
        HeldPhase.ANSWERED_WRITING: {
            HeldEvent.WRITTEN: HeldPhase.DONE,
            HeldEvent.WRITE_REFUSED: HeldPhase.DONE,
        },
        HeldPhase.READ_BACK: {HeldEvent.TAKEN: HeldPhase.UNDER_WAY_READ},
        HeldPhase.UNDER_WAY_READ: {HeldEvent.ANSWERED: HeldPhase.DONE},
        HeldPhase.DONE: {},
    },
    first=(HeldPhase.WAITING, HeldPhase.READ_BACK),
    final=(HeldPhase.SPOOLED, HeldPhase.DONE),
)
AFTER_TAKEN = TABLE.by(HeldEvent.TAKEN)
AFTER_ANSWERED = TABLE.by(HeldEvent.ANSWERED)
AFTER_WRITE_BEGUN = TABLE.by(HeldEvent.WRITE_BEGUN)
AFTER_WRITTEN = TABLE.by(HeldEvent.WRITTEN)
AFTER_WRITE_REFUSED = TABLE.by(HeldEvent.WRITE_REFUSED)
AFTER_READ_PAST = TABLE.by(HeldEvent.READ_PAST)
AFTER_HANDED_ON = TABLE.by(HeldEvent.HANDED_ON)
