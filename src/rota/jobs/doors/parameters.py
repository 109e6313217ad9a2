"""What callers say beside a body to operations on jobs and runs."""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated

from rota.doors.parameters import FLAG, NOON, TEXTS, TIME, WHOLE, Parameter

JobName = Annotated[str, Parameter("The name of the job.", "nightly")]
_DUE = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}
DueCount = Annotated[int, Parameter("How many due times.", 10, _DUE)]
DueAfter = Annotated[datetime | None, Parameter("Due times after this time; after now if left out.", NOON, TIME)]
FirstDue = Annotated[datetime, Parameter("The first due time that may get a run.", NOON, TIME)]
LastDue = Annotated[datetime, Parameter("The last due time that may get a run.", NOON, TIME)]
IsForced = Annotated[bool, Parameter("Also due times that have a run already.", False, FLAG, name="force")]
_PARTS = {
    "job": Parameter("The name of the job.", "nightly"),
    "moment": Parameter("The second part of the run's id, behind the job.", "20260131T030000.000Z"),
}
RunId = Annotated[str, Parameter("The id of the run.", "nightly/20260131T030000.000Z", parts=_PARTS)]
OfJob = Annotated[str | None, Parameter("Only runs of this job.", "nightly")]
InStates = Annotated[
    Collection[str],
    Parameter("Only runs in this state; may be given several times.", ["failed"], TEXTS, name="state"),
]
RanOn = Annotated[str | None, Parameter("Only runs of which this node had an attempt.", "n1")]
DueSince = Annotated[datetime | None, Parameter("Only runs that were due at this time or later.", NOON, TIME)]
AttemptNumber = Annotated[int | None, Parameter("The number of the attempt; the newest if left out.", 1, WHOLE)]
Offset = Annotated[int, Parameter("The first byte of the output that is wanted.", 0, WHOLE)]
