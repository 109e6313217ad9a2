"""The report as a picture, an SVG: a bar for each ratio that has a goal, and a mark where the goal is. Pure.

The scale is logarithmic: twice as fast and half as fast are equally far from 1. A bar is green where the goal is met,
grey where it is not far, red where we fell short. Whether more is better, the mark's arrow tells.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from benchmarks.measure import Row

LABEL, SCALE, MARGIN = 520, 400, 70
"""Widths: of the words, of the bars, and of the figures behind them."""

LINE = 20
TOP, BOTTOM = 46, 16
COLOURS = {"goal": "#2a8f4e", "ok": "#8a8f98", "short": "#c8372d"}
INK, FAINT = "#22252a", "#c9ccd2"


def picture(rows: Sequence[Row]) -> str:
    """The bars of all rows that have a ratio and a goal for it; some have one for our own figure."""
    shown = [row for row in rows if row.ratio is not None and row.goal.endswith("×")]
    low, high = _range(shown)
    width, height = LABEL + SCALE + MARGIN, TOP + LINE * len(shown) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" fill="{INK}" font-weight="600">Ours ÷ theirs; ▸ the goal is more, ◂ it is less</text>',
        *_axis(low, high, height),
    ]
    for number, row in enumerate(shown):
        lines += _bar(row, TOP + LINE * number, low, high)
    return "\n".join((*lines, "</svg>")) + "\n"


def _range(rows: Sequence[Row]) -> tuple[int, int]:
    """The powers of ten between which every ratio and every goal lies; 1 is always among them."""
    found = [1.0, *(figure for row in rows for figure in (row.ratio, _goal(row)) if figure and figure > 0)]
    low, high = floor(log10(min(found))), ceil(log10(max(found)))
    return (low, high) if low < high else (low, low + 1)


def _axis(low: int, high: int, height: int) -> Iterator[str]:
    for power in range(low, high + 1):
        at = _x(10.0**power, low, high)
        ink = INK if power == 0 else FAINT
        yield f'<line x1="{at:.1f}" y1="{TOP - 8}" x2="{at:.1f}" y2="{height - BOTTOM}" stroke="{ink}"/>'
        yield f'<text x="{at:.1f}" y="{TOP - 12}" text-anchor="middle" fill="{INK}">{10.0**power:g}×</text>'


def _bar(row: Row, top: int, low: int, high: int) -> Iterator[str]:
    assert row.ratio is not None
    start, end = sorted((_x(1.0, low, high), _x(row.ratio, low, high)))
    middle = top + LINE * 0.7
    label = escape(_fitting(f"{row.name} ÷ {row.against}"))
    yield f'<text x="{LABEL - 8}" y="{middle:.1f}" text-anchor="end" fill="{INK}">{label}</text>'
    yield (
        f'<rect x="{start:.1f}" y="{top + 4}" width="{max(end - start, 1):.1f}" height="{LINE - 8}" '
        f'fill="{COLOURS[row.verdict]}"/>'
    )
    yield f'<text x="{LABEL + SCALE + 8}" y="{middle:.1f}" fill="{COLOURS[row.verdict]}">{row.ratio:.3g}×</text>'
    sign = "▸" if row.goal.startswith("≥") else "◂"
    at = _x(_goal(row), low, high)
    yield f'<text x="{at:.1f}" y="{middle:.1f}" text-anchor="middle" fill="{INK}">{sign}</text>'


def _goal(row: Row) -> float:
    """The figure in a goal like `≥ 0.8×`."""
    return float(row.goal.strip("≥≤ ×").replace(",", ""))


def _x(figure: float, low: int, high: int) -> float:
    place = (log10(figure) - low) / (high - low) if figure > 0 else 0.0
    return LABEL + SCALE * min(max(place, 0.0), 1.0)


def _fitting(text: str, most: int = 72) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
