"""Charts of one figure over time: lines of blocks for a terminal, and SVG for a file."""

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

BLOCKS = " ▁▂▃▄▅▆▇█"
ROWS, COLUMNS = 6, 72
WIDTH, HEIGHT, MARGIN = 640, 240, 40

Points = Sequence[tuple[float, float]]
"""Seconds, and the part of the whole at that time, from 0 to 1."""


def blocks(points: Points, rows: int = ROWS, columns: int = COLUMNS) -> list[str]:
    """A chart in text, the lowest value of each column, with percents at its left and the time below."""
    lows = _columns(points, columns)
    steps = len(BLOCKS) - 1
    lines = []
    for row in range(rows, 0, -1):
        filled = [round((low * rows - row + 1) * steps) for low in lows]
        label = f"{round(100 * row / rows):>4} %" if row in (rows, rows // 2) else " " * 6
        lines.append(f"{label} │{''.join(BLOCKS[max(0, min(steps, level))] for level in filled)}")
    until = f"{points[-1][0]:.0f} s" if points else ""
    lines.append(f"{'0 %':>6} └{'─' * len(lows)}")
    lines.append(f"{'':7}0 s{until:>{max(0, len(lows) - 3)}}")
    return lines


def svg(points: Points, title: str) -> str:
    """The same as a picture."""
    last = points[-1][0] if points else 1.0
    across, up = (WIDTH - 2 * MARGIN) / (last or 1.0), HEIGHT - 2 * MARGIN
    line = " ".join(f"{MARGIN + at * across:.1f},{HEIGHT - MARGIN - part * up:.1f}" for at, part in points)
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    grid = "".join(
        f'<line x1="{MARGIN}" x2="{right}" y1="{bottom - part * up:.1f}" y2="{bottom - part * up:.1f}" stroke="#ddd"/>'
        f'<text x="{MARGIN - 6}" y="{bottom - part * up + 4:.1f}" text-anchor="end">{part:.0%}</text>'
        for part in (0.0, 0.5, 1.0)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>{grid}'
        f'<text x="{MARGIN}" y="20" font-size="14">{escape(title)}</text>'
        f'<text x="{right}" y="{bottom + 20}" text-anchor="end">{last:.0f} s</text>'
        f'<polyline points="{line}" fill="none" stroke="#0a7" stroke-width="2"/></svg>\n'
    )


def _columns(points: Points, columns: int) -> list[float]:
    """The lowest value of each part of the time; as many columns as there are points, if these are fewer."""
    count = min(columns, len(points))
    edges = [len(points) * number // count for number in range(count + 1)] if count else []
    return [min(part for _, part in points[first:end]) for first, end in pairwise(edges)]
