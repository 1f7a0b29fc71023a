"""Small charts as inline SVG: colours from the page's style sheet, no script.

Each bar and point has its figures as a tooltip; a table beside the chart has them for print.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 200
_LEFT, _TOP, _BOTTOM = 8, 22, 24
_MAX_SLOT = 90
_FRAME = Markup('<svg class="chart" role="img" viewBox="0 0 {} {}" aria-label="{}">{}</svg>')
_TEXT = Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>')


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart; `values` are shares, one for each mark of the axis."""

    name: str
    style: str
    values: Sequence[float]


def bar_chart(bars: Mapping[str, float], *, title: str) -> Markup:
    """A bar for each name, in order, with its value above; empty for no bars."""
    top = max(bars.values(), default=0.0)
    if not top:
        return Markup("")
    slot = min(_MAX_SLOT, (_WIDTH - 2 * _LEFT) / len(bars))
    parts: list[Markup] = [_base_line()]
    for number, (name, value) in enumerate(bars.items()):
        height = value / top * (_HEIGHT - _TOP - _BOTTOM)
        left, floor = _LEFT + number * slot, _HEIGHT - _BOTTOM
        shown = f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"
        parts += [
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {}</title></rect>"
            ).format(left + slot * 0.1, floor - height, slot * 0.8, height, name, shown),
            _TEXT.format(left + slot / 2, _HEIGHT - 8, "axis", name),
            _TEXT.format(left + slot / 2, floor - height - 5, "value", shown),
        ]
    return _framed(title, parts)


def line_chart(marks: Sequence[str], lines: Sequence[Line], *, title: str) -> Markup:
    """Shares as lines over evenly spaced marks, from 0 to the largest; empty for no marks."""
    top = max((value for line in lines for value in line.values), default=0.0)
    if not marks:
        return Markup("")
    slot = (_WIDTH - 2 * _LEFT) / len(marks)
    parts: list[Markup] = [_base_line()]
    for number, mark in enumerate(marks):
        parts.append(_TEXT.format(_LEFT + (number + 0.5) * slot, _HEIGHT - 8, "axis", mark))
    for place, line in enumerate(lines):
        points = [
            (_LEFT + (number + 0.5) * slot, _height_of(value, top))
            for number, value in enumerate(line.values)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(Markup('<polyline class="line {}" points="{}"/>').format(line.style, path))
        for (x, y), value, mark in zip(points, line.values, marks, strict=True):
            shown = f"{100 * value:.1f} %"
            parts += [
                Markup(
                    '<circle class="point {}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}, {}: {}'
                    "</title></circle>"
                ).format(line.style, x, y, line.name, mark, shown),
                _TEXT.format(x, y - 8, "value", shown),
            ]
        parts.append(
            Markup('<text x="{}" y="{}" class="legend {}">{}</text>').format(
                _WIDTH - _LEFT, _TOP + 16 * place, line.style, line.name
            )
        )
    return _framed(title, parts)


def _height_of(value: float, top: float) -> float:
    room = _HEIGHT - _TOP - _BOTTOM
    return _HEIGHT - _BOTTOM - (value / top * room if top else 0.0)


def _base_line() -> Markup:
    floor = _HEIGHT - _BOTTOM
    return Markup('<line class="base" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        _LEFT, floor, _WIDTH - _LEFT, floor
    )


def _framed(title: str, parts: Sequence[Markup]) -> Markup:
    return _FRAME.format(_WIDTH, _HEIGHT, title, Markup("").join(parts))
