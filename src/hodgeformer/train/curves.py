"""Small line charts as SVG text."""

from __future__ import annotations

import html
from collections.abc import Sequence

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 34
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")


def line_chart(series: dict[str, Points], *, x_label: str, y_range: tuple[float, float] | None = None) -> str:
    """Lines over one pair of axes, with a legend. Empty lines are left out."""
    series = {name: points for name, points in series.items() if points}
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    if not xs:
        return ""
    x_range = (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1)
    low, high = y_range or (min(0.0, *ys), max(ys) if max(ys) > min(0.0, *ys) else 1.0)

    def place(x: float, y: float) -> str:
        across = _LEFT + (x - x_range[0]) / (x_range[1] - x_range[0]) * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for i in range(5):
        y = low + (high - low) * i / 4
        start, end = place(x_range[0], y), place(x_range[1], y)
        parts.append(f'<path d="M{start} L{end}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{float(start.split(",")[1]) + 4:.1f}" class="end">{y:.3g}</text>')
    for x in x_range:
        across = place(x, low).split(",")[0]
        parts.append(f'<text x="{across}" y="{_HEIGHT - _BOTTOM + 16}" class="middle">{x:.4g}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 4}" class="middle">{html.escape(x_label)}</text>')
    for i, (name, points) in enumerate(series.items()):
        color = _COLORS[i % len(_COLORS)]
        line = " ".join(place(x, y) for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        at = _TOP + 14 * i + 4
        parts.append(
            f'<text x="{_WIDTH - _RIGHT - 4}" y="{at + 6}" class="end" fill="{color}">{html.escape(name)}</text>'
        )
    return "".join([*parts, "</svg>"])
