"""The form of a show: a line per item, `ok` or `short`, the item, the figure; exit code 1 where any is short.

The last line says how much of the processors' time other machines took meanwhile, if this is a virtual one: figures
that count seconds are worse for it.

`make show-proof PARTS=seeds,million` runs only the parts whose names have one of these words in them.
"""

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psutil


@dataclass(frozen=True)
class Line:
    """One item."""

    is_ok: bool
    item: str
    figure: str


Part = Callable[[], Iterable[Line]]


def show(parts: Sequence[Part]) -> None:
    """Run the parts, print their lines as they come, and exit."""
    logging.getLogger("rota").addHandler(logging.NullHandler())  # what is lost in here is lost on purpose
    short, count, started, before = 0, 0, time.monotonic(), psutil.cpu_times()
    for part in _chosen(parts, os.environ.get("PARTS", "")):
        try:
            for line in part():
                _print(line)
                count += 1
                short += not line.is_ok
        except Exception as error:  # a part that breaks is short, and the others still have their say
            traceback.print_exc()
            _print(Line(False, part.__name__.replace("_", " "), f"broke: {error!r}"))
            count += 1
            short += 1
    print(f"{count} items, {short} short; {time.monotonic() - started:.0f} s; {told(before, psutil.cpu_times())}")
    sys.exit(1 if short else 0)


def told(before: NamedTuple, after: NamedTuple) -> str:
    """What became of the processors' time between two looks at it."""
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    whole = sum(spent.values()) or 1.0
    stolen, idle = spent.get("steal", 0.0), spent["idle"] + spent.get("iowait", 0.0)
    return f"{stolen / whole:.0%} of the processors' time was taken by other machines, {idle / whole:.0%} was idle"


def _chosen(parts: Sequence[Part], words: str) -> list[Part]:
    """The parts that were asked for; all if none was."""
    wanted, names = [word for word in words.split(",") if word], [part.__name__ for part in parts]
    for word in wanted:
        if not any(word in name for name in names):
            sys.exit(f"no part is called {word}; there are {', '.join(names)}")
    return [part for part in parts if not wanted or any(word in part.__name__ for word in wanted)]


def _print(line: Line) -> None:
    print(f"{'ok   ' if line.is_ok else 'short'}  {line.item}: {line.figure}", flush=True)
