"""What callers say beside a body to operations on streams."""

from typing import Annotated

from rota.doors.parameters import FLAG, Parameter

StreamName = Annotated[str, Parameter("The name of the stream.", "orders")]
WithPast = Annotated[bool, Parameter("Also backfills that are completed.", True, FLAG, name="all")]
