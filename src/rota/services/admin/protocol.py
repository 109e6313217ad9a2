"""The protocol of the original control tool, as it is spoken on a service's admin door.

Each request is a Box frame whose body is JSON: `{"auth": {"username", "password"}, "payload": …}`. `Admin.answer` makes
one answer of one request, whatever is in it. Beside `ret`, which the tool looks at, a refusal has a sentence in its
body: `{"error": …}`.

The tool's `--diff` subtracts every value of a stat from its successor, known to it or not. So what `figures` adds to
the original's fields is numbers only, each always of the same type.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any

import msgspec

from rota.fleet.audit.trail import AuditRecorder, forget
from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.services.core.frames import BOX, wire
from rota.services.core.records import ServiceStat
from rota.services.node.door import ServicesDoor

log = logging.getLogger(__name__)

PATIENCE = 8.0
"""Seconds to wait for a reload. The tool gives up after 10; a longer reload is answered as begun."""

THINK = 0.5
"""Seconds until a wrong password is answered, so that guessing is slow."""

TEXTS = ("service", "listening", "not_listening", "slow")
"""Fields of a stat that are no numbers."""


class Cmd(IntEnum):
    """The commands of the protocol."""

    STAT = 20000
    RELOAD = 21001
    STOP = 21003
    CLEAR = 21004


CHANGING = frozenset({Cmd.RELOAD, Cmd.STOP, Cmd.CLEAR})
"""The commands that change something."""


class AdminStatus(IntEnum):
    """The `ret` of an answer."""

    DONE = 0
    UNKNOWN_CMD = -10000
    BAD_REQUEST = -10001
    DENIED = -20000
    CANNOT = -21000


class Auth(msgspec.Struct):
    """The name and the password of a request."""

    username: str | None
    password: str | None


class AdminRequest(msgspec.Struct):
    """The body of a request."""

    auth: Auth
    payload: Any = None


class ClearRequest(msgspec.Struct):
    """The groups that `clear` should empty."""

    group_list: list[int] | None
    all_groups: bool


Credentials = Callable[[], tuple[str, str]]
"""The name and the password that a request must give; empty where none is required."""


class Admin:
    """Answers for one service."""

    def __init__(
        self,
        service: str,
        door: ServicesDoor,
        reload: Callable[[], Awaitable[object]],
        stop: Callable[[], None],
        credentials: Credentials,
        note: AuditRecorder = forget,
    ) -> None:
        self._service, self._door = service, door
        self._reload, self._stop, self._credentials = reload, stop, credentials
        self._note = note
        self._reloading: set[asyncio.Future[object]] = set()

    async def answer(self, frame: bytes) -> bytes:
        """The answer to one request."""
        box = wire(BOX)
        cmd, _ = box.cmd_and_sn(frame)
        try:
            ret, content = await self._do(cmd, box.body(frame))
        except Denied as error:
            log.warning("admin denied", extra={"service": self._service, "cmd": cmd})
            self._note(by="", origin="admin door", what=f"{_verb(cmd)} {self._service}", refused=str(error))
            await asyncio.sleep(THINK)
            ret, content = AdminStatus.DENIED, _sorry(error)
        except Invalid as error:
            ret, content = AdminStatus.BAD_REQUEST, _sorry(error)
        except RotaError as error:
            ret, content = AdminStatus.CANNOT, _sorry(error)
        except Exception as error:  # the caller gets the message, the log has the traceback
            log.exception("an admin request failed", extra={"service": self._service, "cmd": cmd})
            ret, content = AdminStatus.CANNOT, _sorry(error)
        return box.reply(frame, ret, msgspec.json.encode(content) if content is not None else b"")

    async def _do(self, cmd: int, body: bytes) -> tuple[AdminStatus, object]:
        asked = _asked(body)
        self._check(asked.auth)
        if cmd in CHANGING:
            by = asked.auth.username or ""
            self._note(by=by, origin="admin door", what=f"{_verb(cmd)} {self._service}")
        match cmd:
            case Cmd.STAT:
                return AdminStatus.DONE, figures(await self._door.stat(self._service))
            case Cmd.RELOAD:
                return AdminStatus.DONE, await self._reload_or_begin()
            case Cmd.STOP:
                log.info("stop asked", extra={"service": self._service, "by": "admin"})
                self._stop()
                return AdminStatus.DONE, None
            case Cmd.CLEAR:
                return AdminStatus.DONE, await self._clear(_clear(asked.payload))
        known = ", ".join(f"{each:d} {each.name.lower()}" for each in Cmd)
        return AdminStatus.UNKNOWN_CMD, {"error": f"there is no admin cmd {cmd}; there are {known}"}

    def _check(self, auth: Auth) -> None:
        """Raises Denied unless name and password are right. The time it takes does not reveal how wrong they are."""
        try:
            username, password = self._credentials()
        except RotaError as error:  # the caller is not authenticated, so the reason goes to the log only
            log.warning("no admin password", extra={"service": self._service, "why": str(error)})
            raise Unavailable("the node cannot look up its admin password; its log says why") from error
        is_name = hmac.compare_digest(_bytes(auth.username), _bytes(username))
        is_password = hmac.compare_digest(_bytes(auth.password), _bytes(password))
        if not (is_name and is_password):
            raise Denied("wrong username or password; give those of admin_username= and admin_password=")

    async def _clear(self, wanted: ClearRequest) -> object:
        groups = None if wanted.all_groups else wanted.group_list or []
        dropped = await self._door.clear(self._service, groups)
        log.info("queue cleared", extra={"service": self._service, "dropped": sum(dropped.values()), "by": "admin"})
        return {str(group): count for group, count in dropped.items()}

    async def _reload_or_begin(self) -> object:
        """The outcome of the reload; None if it is still running after `PATIENCE`, which it then continues to do."""
        log.info("reload asked", extra={"service": self._service, "by": "admin"})
        reload = asyncio.ensure_future(self._reload())
        self._reloading.add(reload)
        reload.add_done_callback(self._reloaded)
        done, _ = await asyncio.wait([reload], timeout=PATIENCE)
        return reload.result() if done else None

    def _reloaded(self, reload: "asyncio.Future[object]") -> None:
        """Retrieve the outcome of a reload that nobody waits for any more; the journal has reported it already."""
        self._reloading.discard(reload)
        if not reload.cancelled():
            reload.exception()


def figures(stat: ServiceStat) -> dict[str, Any]:
    """A stat as the control tool reads it: the original's fields, then additional numbers."""
    typed = msgspec.convert(
        msgspec.to_builtins(stat), ServiceStat
    )  # makes a float of a whole number where one is declared
    return {name: value for name, value in msgspec.to_builtins(typed).items() if name not in TEXTS}


def _asked(body: bytes) -> AdminRequest:
    try:
        return msgspec.json.decode(body, type=AdminRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f'the body is no admin request ({error}); write {{"auth": {{…}}, "payload": …}}') from None


def _clear(payload: Any) -> ClearRequest:
    try:
        return msgspec.convert(payload, ClearRequest)
    except msgspec.ValidationError as error:
        form = '{"group_list": […], "all_groups": …}'
        raise Invalid(f"the payload is not that of clear ({error}); write {form}") from None


def _verb(cmd: int) -> str:
    """The name of a cmd in the audit trail. Unknown cmds share one name, because strangers choose their numbers."""
    return Cmd(cmd).name.lower() if cmd in list(Cmd) else "unknown cmd"


def _bytes(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogatepass")


def _sorry(error: Exception) -> dict[str, str]:
    return {"error": str(error)}
