"""Checks of what a user declares: each returns the value as a spec keeps it, or raises Invalid.

A message begins with the subject (`resource "room"`), names the option and its value, and ends with the next move. The
values come straight from a user's file, so nothing is taken for granted about their types. Pure.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import NoReturn
from zoneinfo import ZoneInfo, available_timezones

from rota.kit.time import durations
from rota.model import adapters
from rota.model import url as urls
from rota.model.errors import Invalid

Duration = str | timedelta
"""A duration as users write it: "30s", "1h30m", or a timedelta."""

LONGEST = timedelta(days=36500)
"""The longest duration that may be declared."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Check:
    """The checks of one declaration; `subject` is how its messages begin."""

    def __init__(self, kind: str, name: object) -> None:
        self.subject = f'{kind} "{name}"'

    def about(self, part: str) -> "Check":
        """The checks of a part of it."""
        check = copy(self)
        check.subject = f"{self.subject}: {part}"
        return check

    def fail(self, text: str, code: str = "") -> NoReturn:
        """Raise Invalid about the subject; `code` if there is a better one than that of the family."""
        raise Invalid(f"{self.subject}: {text}", code=code)

    def options(self, given: Iterable[str], known: Iterable[str]) -> None:
        """Invalid if an option was given that there is not."""
        options = sorted(known)
        for option in given:
            if option not in options:
                guess = did_you_mean(option, options) or f"; there are {', '.join(options)}"
                self.fail(f"there is no option {option}={guess}")

    def name(self, value: object) -> str:
        """A name that keys, files, process titles and screens can hold."""
        if not isinstance(value, str):
            self.fail(f"the name is {_show(value)}; it must be a str")
        if value == "<lambda>":
            self.fail('this function has no name of its own; give one with name="…"')
        if not _NAME.fullmatch(value):
            self.fail(
                'use letters, digits, ".", "_" and "-" in a name, at most 63, beginning with a letter or digit; '
                "give it another one"
            )
        return value

    def count(self, option: str, value: object, *, least: int = 1, most: int | None = None) -> int:
        """A whole number from `least` to `most`."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{option} is {_show(value)}; it must be a whole number")
        if value < least or (most is not None and value > most):
            bound = f"{least} or more" if most is None else f"from {least} to {most}"
            self.fail(f"{option} is {value}; it must be {bound}")
        return value

    def flag(self, option: str, value: object) -> bool:
        """True or False."""
        if not isinstance(value, bool):
            self.fail(f"{option} is {_show(value)}; it must be True or False")
        return value

    def duration(self, option: str, value: object, *, least: timedelta = timedelta(microseconds=1)) -> timedelta:
        """A duration of at least `least`."""
        if isinstance(value, str):
            try:
                value = durations.parse(value)
            except ValueError as error:
                self.fail(f"{option}: {error}")
        if not isinstance(value, timedelta):
            self.fail(f'{option} is {_show(value)}; write a duration like "30s", or a timedelta')
        if value < least:
            shown = durations.render(value) if value >= timedelta() else str(value)
            bound = (
                "longer than nothing" if least == timedelta(microseconds=1) else f"{durations.render(least)} or more"
            )
            self.fail(f"{option} is {shown}; it must be {bound}")
        if value > LONGEST:  # added to a time it would leave the calendar
            self.fail(f"{option} is {durations.render(value)}; it must be {durations.render(LONGEST)} or less")
        return value

    def moment(self, option: str, value: object) -> datetime:
        """A time with its zone."""
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                self.fail(f'{option} is {_show(value)}; write a time like "2026-01-31T12:00+00:00"')
        if not isinstance(value, datetime):
            self.fail(f'{option} is {_show(value)}; write a time like "2026-01-31T12:00+00:00", or an aware datetime')
        if value.tzinfo is None:
            self.fail(f'{option} is {value.isoformat()}, which is not the same everywhere; add its zone, like "+00:00"')
        return value

    def choice(self, option: str, value: object, choices: Sequence[str]) -> str:
        """One of a few words."""
        if not isinstance(value, str) or value not in choices:
            self.fail(f"{option} is {_show(value)}; choose {_either(choices)}{did_you_mean(value, choices)}")
        return value

    def text(self, option: str, value: object) -> str:
        """A str that is not empty."""
        if not isinstance(value, str) or not value:
            self.fail(f"{option} is {_show(value)}; it must be a str that is not empty")
        return value

    def url(self, option: str, value: object, schemes: Sequence[str], group: str | None = None) -> str:
        """A URL with one of these schemes, or one that a package offers in `group`.

        Only its scheme is shown: there may be a password behind it.
        """
        if not isinstance(value, str):
            self.fail(f"{option} is {_show(value)}; it must be a URL, like {schemes[0]}://…")
        scheme, colon, _ = value.partition("://")
        if not colon:
            shown = f"…@{value.rpartition('@')[2]}" if "@" in value else value  # before it there may be a password
            self.fail(f'{option} "{shown}" is not a URL; write one like {schemes[0]}://…')
        if scheme not in schemes and scheme not in (others := sorted(adapters.offered(group)) if group else ()):
            schemes = [*schemes, *others]
            known = _either([f"{each}://" for each in schemes])
            self.fail(f"{option} {scheme}://… has an unknown scheme; use {known}{did_you_mean(scheme, schemes)}")
        try:
            urls.parse(value, option, f"{scheme}://…")
        except Invalid as error:
            self.fail(str(error))
        return value

    def url_to_show(self, option: str, value: object, schemes: Sequence[str], group: str | None = None) -> str:
        """A URL that may be shown without its password: none of its options holds a secret."""
        url = self.url(option, value, schemes, group)
        if name := urls.parse(url, option, "").secret_option:
            scheme = url.partition("://")[0]
            self.fail(
                f"{option} {scheme}://… has {name}= in it, and is shown to all who may look; leave it out, and say"
                " where the password is: password_file=PATH or password_env=NAME"
            )
        return url

    def labels(self, option: str, value: object) -> dict[str, str]:
        """Labels a node must have, as {name: value}."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fail(f'{option} is {_show(value)}; write a dict, like {{"zone": "a"}}')
        for key, text in value.items():
            if not isinstance(key, str) or not isinstance(text, str) or not key:
                self.fail(f"{option} has {_show(key)}: {_show(text)}; both must be str")
        return dict(value)

    def names(self, option: str, value: object) -> tuple[str, ...]:
        """Names of other declarations: one, several, or the declared things themselves."""
        if value is None:
            return ()
        several = value if isinstance(value, list | tuple) else [value]
        names: list[str] = []
        for each in several:
            name = getattr(each, "name", each)
            if not isinstance(name, str):
                self.fail(f"{option} has {_show(name)}; write names, or the decorated functions themselves")
            names.append(name)
        if len(set(names)) < len(names):
            self.fail(f"{option} names {_first_double(names)} twice; once is enough")
        return tuple(names)

    def zone(self, option: str, value: object) -> str:
        """The name of a time zone."""
        try:
            return ZoneInfo(value).key if isinstance(value, str) and value else self._no_zone(option, value)
        except (KeyError, ValueError, OSError):  # not found, not a possible name, a folder
            self._no_zone(option, value)

    def _no_zone(self, option: str, value: object) -> NoReturn:
        guess = did_you_mean(value, available_timezones())
        self.fail(f"{option} is {_show(value)}; write the name of a time zone, like Europe/Berlin{guess}")


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """`; did you mean "replicas"?`, or nothing when nothing is near."""
    near = difflib.get_close_matches(value, list(known), n=1) if isinstance(value, str) else []
    return f'; did you mean "{near[0]}"?' if near else ""


def _either(choices: Sequence[str]) -> str:
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def _first_double(names: Sequence[str]) -> str:
    return next(f'"{name}"' for at, name in enumerate(names) if name in names[:at])


def _show(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
