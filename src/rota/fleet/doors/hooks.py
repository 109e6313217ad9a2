"""Operations on hooks, as plain functions on the store; the doors call these.

A hook may run a command on any node, so making one needs the right to say who may do what.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import msgspec

from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.core.hooks.record import Delivery, Hook, HookStatus
from rota.fleet.doors.bodies import EnableHookBody, HookBody
from rota.fleet.doors.parameters import HookName
from rota.fleet.events import event_log as events
from rota.kit.record import replace
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model import codec, event, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import Key, NodeId
from rota.model.spec.checks import Check, did_you_mean
from rota.store.follow import follow
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store
from rota.store.records import understood

FIELDS = ("name", "events", "url", "command", "timeout", "retries", "per_minute", "enabled")
TRIES = 5
MOST_PATTERNS = 50
MOST_WORDS = 100
PATIENCE = timedelta(seconds=15)
"""How long a test of a hook waits beyond the timeout of one attempt."""

EXITED = "the command exited with "
LARGEST = 4096
"""Characters of a URL, and of all words of a command."""


class HookView(msgspec.Struct, frozen=True, kw_only=True):
    """A hook, what waits for it, and what became of its deliveries."""

    name: str
    events: list[str]
    url: str
    """Without the part after the host, which often contains a secret."""

    command: list[str]
    """For callers that are no admins the program alone, and … if it has arguments: these may contain a secret."""

    timeout: str
    """How long one try may take, as a duration such as `10s`."""

    retries: int
    per_minute: int
    enabled: bool
    created: datetime
    waiting: int
    """Events that wait to be delivered."""

    status: HookStatus
    """The results of its deliveries."""


class HookTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of testing a hook."""

    hook: str
    """The name of the hook."""

    event: str
    """The id of the event that was made up."""

    error: str = ""
    """Why it failed; empty if it was delivered."""

    output: str = ""
    """The end of what its command printed, if it failed; for admins alone."""


class HookPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some hooks, in the order of the name."""

    hooks: tuple[HookView, ...]
    """The hooks of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


class HookSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a hook is on."""

    name: str
    """The name of the hook."""

    enabled: bool
    """Is it on?"""


@verb("GET", "/v1/hooks", Access.VIEW, rpc="Hooks.List", answer=HookPage, page_by=lambda hook: hook.name)
async def list_hooks(store: Store, access: Access = Access.ADMIN) -> tuple[HookView, ...]:
    """List the hooks, by name, with the results of their deliveries, as far as the caller's access allows."""
    waiting: dict[str, int] = {}
    for entry in (await store.scan(keys.HOOK_OUTBOX)).entries:
        name = entry.key.rpartition("/")[2]
        waiting[name] = waiting.get(name, 0) + 1
    statuses = {
        entry.key.removeprefix(keys.HOOK_STATUS): understood(HookStatus, entry)
        for entry in (await store.scan(keys.HOOK_STATUS)).entries
    }
    hooks = [understood(Hook, entry) for entry in (await store.scan(keys.HOOKS)).entries]
    views = (_view(hook, waiting.get(hook.name, 0), statuses.get(hook.name)) for hook in hooks if hook)
    return tuple(view if access.covers(Access.ADMIN) else _for_others(view) for view in views)


@verb("GET", "/v1/hooks/{name}", Access.VIEW, rpc="Hooks.Get")
async def get_hook(store: Store, name: HookName, access: Access = Access.VIEW) -> HookView:
    """Get one hook, with the results of its deliveries; NotFound if there is none."""
    await _hook(store, name)
    found = next((view for view in await list_hooks(store, access) if view.name == name), None)
    if found is None:  # deleted meanwhile, or not understood
        raise NotFound(f'there is no hook "{name}"; see which there are with: rota hooks ls', code="hook_not_found")
    return found


@verb(
    "POST",
    "/v1/hooks",
    Access.ADMIN,
    rpc="Hooks.Create",
    body=HookBody,
    makes=True,
    found_at="/v1/hooks/{name}",
    codes=("already_exists",),
)
async def create_hook(store: Store, clock: Clock, fields: Mapping[str, object]) -> HookView:
    """Create a hook; Conflict if there is one of that name."""
    hook = read_hook(fields, clock.wall())
    key = keys.hook(hook.name)
    try:
        await store.commit(Put(key, codec.encode(hook)), expect=[Absent(key)])
    except Conflict:
        raise Conflict(
            f"hook {hook.name} exists already; remove it first, or choose another name", [key], code="already_exists"
        ) from None
    return _view(hook, 0, None)


@verb("DELETE", "/v1/hooks/{name}", Access.ADMIN, rpc="Hooks.Delete", deletes=True)
async def delete_hook(store: Store, name: HookName) -> Hook:
    """Delete a hook, and return it as it was. Events that wait for it are dropped."""
    entry, hook = await _hook(store, name)
    await store.commit(Delete(entry.key), Delete(keys.hook_status(name)))
    return hook


@verb("PATCH", "/v1/hooks/{name}", Access.OPERATE, rpc="Hooks.Enable", body=EnableHookBody, answer=HookSwitch)
async def enable_hook(store: Store, name: HookName, enabled: bool) -> Hook:
    """Enable or disable a hook; it does not get events from while it is disabled."""
    for _ in range(TRIES):
        entry, hook = await _hook(store, name)
        if hook.enabled is enabled:
            return hook
        changed = replace(hook, enabled=enabled)
        seen: Expect = At(entry.key, entry.modified)
        try:
            await store.commit(Put(entry.key, codec.encode(changed)), expect=[seen])
        except Conflict:
            continue
        return changed
    raise Conflict(f"hook {name} is being changed all the time; try again")


@verb("POST", "/v1/hooks/{name}/test", Access.OPERATE, rpc="Hooks.Test", codes=("no_node",))
async def try_hook(store: Store, clock: Clock, name: HookName, access: Access = Access.ADMIN) -> HookTrial:
    """Deliver a test event to a hook, once, and return the result; at least one node must be up."""
    _, hook = await _hook(store, name)
    if not hook.enabled:
        raise Invalid(f"hook {name} is off, so nothing is delivered; enable it first")
    happened = event.make("hook.test", name, {}, node=NodeId("nobody"), at=clock.wall(), number=0)
    delivery = Delivery(hook=name, event=happened, due=await store.now(), attempts=hook.retries)
    put = Put(keys.delivery(delivery.id), codec.encode(delivery))
    await store.commit(put, expect=[Absent(put.key)])
    patience = hook.timeout + PATIENCE
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await _until_gone(store, put.key)
    except TimeoutError:
        await store.commit(Delete(put.key))
        raise Unavailable(
            f"no node took the event for hook {name} within {durations.render(patience)}; is any node up?",
            code="no_node",
        ) from None
    given_up = (await events.read(store, since=happened.at - PATIENCE, kinds=["hook.failed"])).events
    error = next((str(each.fields.get("why")) for each in given_up if each.fields.get("event") == happened.id), "")
    if not error or not access.covers(Access.ADMIN):
        return HookTrial(hook=name, event=happened.id, error=error)
    status = understood(HookStatus, await store.get(keys.hook_status(name)))
    is_it = status is not None and status.last == happened.id
    return HookTrial(hook=name, event=happened.id, error=error, output=status.output if status and is_it else "")


async def _until_gone(store: Store, key: Key) -> None:
    async with aclosing(follow(store, key)) as entries:
        async for entry in entries:
            if entry is None:
                return


def read_hook(fields: Mapping[str, object], created: datetime) -> Hook:
    """The hook that these fields ask for; a field that is None counts as left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    if "name" not in given:
        raise Invalid("a hook needs a name; give it one")
    check = Check("hook", given["name"])
    for field in given:
        if field not in FIELDS:
            check.fail(
                f'there is no field "{field}"{did_you_mean(field, FIELDS) or "; there are " + ", ".join(FIELDS)}',
                code="unknown_field",
            )
    if bool(given.get("url")) == bool(given.get("command")):
        check.fail("give a URL to call or a command to run, and not both")
    timeout = check.duration("timeout", given.get("timeout", "10s"), least=timedelta(milliseconds=100))
    if timeout > timedelta(minutes=5):
        check.fail(f"timeout is {timeout}; it must be at most 5m")
    return Hook(
        name=check.name(given["name"]),
        events=_patterns(check, given.get("events")),
        url=_url(check, given["url"]) if given.get("url") else "",
        command=_command(check, given["command"]) if given.get("command") else [],
        timeout=timeout,
        retries=check.count("retries", given.get("retries", 5), least=0, most=20),
        per_minute=check.count("per_minute", given.get("per_minute", 60), most=6000),
        enabled=check.flag("enabled", given.get("enabled", True)),
        created=created,
    )


def _patterns(check: Check, value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not value or len(value) > MOST_PATTERNS:
        check.fail(f"events must be a list of 1 to {MOST_PATTERNS} kinds of events, such as node.offline or node.*")
    for pattern in value:
        if not isinstance(pattern, str) or not any(fnmatchcase(kind, pattern) for kind in event.KINDS):
            check.fail(f'no event is called "{pattern}"{did_you_mean(pattern, event.KINDS) or "; see the reference"}')
    return list(value)


def _url(check: Check, value: object) -> str:
    url = check.url("url", value, ("https", "http"))
    try:
        parts = urlsplit(url)
        is_fine = bool(parts.hostname) and parts.port != 0 and not parts.username and len(url) <= LARGEST
    except ValueError:
        is_fine = False
    if not is_fine:
        check.fail("url must be like https://host:port/path, without a name and a password in it")
    return url


def _command(check: Check, value: object) -> list[str]:
    words = value if isinstance(value, list | tuple) else []
    if not 0 < len(words) <= MOST_WORDS or not all(isinstance(word, str) and "\0" not in word for word in words):
        check.fail(
            f'command must be a list of 1 to {MOST_WORDS} words, such as ["mail", "-s", "offline", "me@example"]'
        )
    if not words[0] or sum(map(len, words)) > LARGEST:
        check.fail(f"command must begin with a program, and have at most {LARGEST} characters in all")
    return list(words)


async def _hook(store: Store, name: str) -> tuple[Entry, Hook]:
    entry = await store.get(keys.hook(name)) if name else None
    if entry is None:
        raise NotFound(f'there is no hook "{name}"; see which there are with: rota hooks ls', code="hook_not_found")
    return entry, codec.decode(Hook, entry.value)


def _shown(url: str) -> str:
    """A URL without its secret part."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…" if url else ""


def joined(error: str, output: str) -> str:
    """Why a delivery failed, in one text."""
    return f"{error}: {output}" if output else error


def _for_others(view: HookView) -> HookView:
    """A hook for callers that may not make one: without arguments and without the output of its command."""
    status = replace(view.status, output="")
    if view.command and status.error.startswith(EXITED):  # an older Rota put the output there as well
        status = replace(status, error=status.error.partition(": ")[0])
    return replace(view, command=[*view.command[:1], *(["…"] if view.command[1:] else [])], status=status)


def _view(hook: Hook, waiting: int, status: HookStatus | None) -> HookView:
    return HookView(
        name=hook.name,
        events=hook.events,
        url=_shown(hook.url),
        command=hook.command,
        timeout=durations.render(hook.timeout),
        retries=hook.retries,
        per_minute=hook.per_minute,
        enabled=hook.enabled,
        created=hook.created,
        waiting=waiting,
        status=status or HookStatus(),
    )
