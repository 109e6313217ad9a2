"""What callers say beside a body to operations on services of a node, events, hooks, tokens and the audit trail."""

from collections.abc import Collection
from typing import Annotated

from rota.doors.parameters import FLAG, TEXTS, Parameter, page

LimitOfEvents = Annotated[int, page(1000, 50, 0)]
LimitOfAudit = Annotated[int, page(1000, 50)]
ServiceName = Annotated[str, Parameter("The name of the service.", "chat")]
KindsOfEvents = Annotated[
    Collection[str],
    Parameter("Only events of this kind; `node.*` and several are possible.", ["node.*"], TEXTS, name="kind"),
]
HookName = Annotated[str, Parameter("The name of the hook.", "pager")]
RoleName = Annotated[str, Parameter("What the token allows.", "operate", name="role")]
TokenName = Annotated[str, Parameter("The name of the token.", "web")]
ByCaller = Annotated[str, Parameter("Only what this caller did.", "ada")]
IsRefused = Annotated[bool, Parameter("Only what was refused.", True, FLAG)]
Noted = Annotated[str, Parameter("A hash of the chain that was noted earlier, and must still be in it.", "5f2c…")]
