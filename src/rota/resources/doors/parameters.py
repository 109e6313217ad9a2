"""What callers say beside a body to operations on resources."""

from typing import Annotated

from rota.doors.parameters import FLAG, Parameter

KindName = Annotated[str, Parameter("The kind of the resource.", "room")]
ResourceId = Annotated[str, Parameter("The id of the resource.", "1")]
OfKind = Annotated[str | None, Parameter("Only resources of this kind.", "room")]
IsPending = Annotated[bool, Parameter("Only resources that have fewer tasks than they should.", True, FLAG)]
