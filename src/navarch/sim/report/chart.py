"""Charts, drawn as inline SVG."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from navarch.sim.report.html import Markup, element, render_number, render_span

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 28
POINTS_MAX = 600
"""More points than a screen can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of a stacked chart."""

    name: str
    color: str
    values: Sequence[float]


def stacked(times_s: Sequence[float], layers: Sequence[Layer], *, title: str) -> Markup:
    """Return a stacked step chart over time."""
    kept = thin([tuple(layer.values[i] for layer in layers) for i in range(len(times_s))])
    times = [times_s[i] for i in kept]
    heights = [sum(layer.values[i] for layer in layers) for i in kept]
    highest = max([*heights, 1.0])
    begin, end = (times[0], max(times[-1], times[0] + 1.0)) if times else (0.0, 1.0)

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at_s - begin) / (end - begin)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest

    drawn = []
    below = [0.0] * len(kept)
    for layer in layers:
        above = [base + layer.values[i] for base, i in zip(below, kept, strict=True)]
        if any(layer.values[i] for i in kept):
            shape = _steps(times, above, x, y) + _steps(times, below, x, y)[::-1]
            path = "M" + " L".join(f"{px:.1f},{py:.1f}" for px, py in shape) + " Z"
            name = element("title", layer.name)
            drawn.append(element("path", name, d=path, fill=layer.color))
        below = above
    drawn += _frame(begin, end, highest, x, y)
    keys = [(layer.name, layer.color) for layer in layers if any(layer.values)]
    return _figure(title, HEIGHT, drawn, legend(keys))


def _figure(title: str, height: float, drawn: list[Markup], *below: Markup) -> Markup:
    svg = element(
        "svg",
        element("title", title),
        drawn,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_label=title,
    )
    return element("figure", element("figcaption", title), svg, *below, class_="chart")


def thin(values: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices to draw: every change, or an even selection if there are too many."""
    last = len(values) - 1
    changes = [
        i
        for i in range(len(values))
        if i in (0, last) or values[i] != values[i - 1] or values[i] != values[i + 1]
    ]
    if len(changes) <= POINTS_MAX:
        return changes
    pace = len(changes) / POINTS_MAX
    return sorted({changes[int(i * pace)] for i in range(POINTS_MAX)} | {last})


def _steps(
    times: Sequence[float],
    values: Sequence[float],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for at_s, value in zip(times, values, strict=True):
        if points:
            points.append((x(at_s), points[-1][1]))
        points.append((x(at_s), y(value)))
    return points


def _frame(
    begin: float,
    end: float,
    highest: float,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[Markup]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        level = y(highest * share)
        lines.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=level, y2=level, class_="grid"))
        label = render_number(round(highest * share, 1))
        lines.append(element("text", label, x=LEFT - 6, y=level + 4, text_anchor="end"))
    for share, anchor in ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle")):
        at_s = begin + (end - begin) * share
        lines.append(
            element("text", render_span(at_s), x=x(at_s), y=HEIGHT - 8, text_anchor=anchor)
        )
    lines.append(element("text", render_span(end), x=x(end), y=HEIGHT - 8, text_anchor="end"))
    return lines


def bars(
    rows: Mapping[str, Sequence[tuple[str, str, float | None]]],
    *,
    title: str,
    render: Callable[[float], str] = render_number,
) -> Markup:
    """Return groups of horizontal bars with name, colour and length; None draws no bar."""
    known = [length for group in rows.values() for _, _, length in group if length is not None]
    longest = max([*known, 0.0]) or 1.0
    label_x, bar_x, row_h = 220, 230, 18
    drawn: list[Markup] = []
    top = 4.0
    for group, members in rows.items():
        drawn.append(element("text", group, x=0, y=top + 13, class_="strong"))
        for name, color, length in members:
            drawn.append(element("text", name, x=label_x, y=top + 13, text_anchor="end"))
            if length is None:
                drawn.append(element("text", "none", x=bar_x, y=top + 13, class_="faint"))
            else:
                wide = (WIDTH - bar_x - 120) * length / longest
                shown, end = f"{max(wide, 1):.1f}", f"{bar_x + wide + 6:.1f}"
                drawn += [
                    element("rect", x=bar_x, y=top, width=shown, height=14, fill=color),
                    element("text", render(length), x=end, y=top + 13),
                ]
            top += row_h
        top += 8
    return _figure(title, top, drawn)


def legend(keys: Sequence[tuple[str, str]]) -> Markup:
    """Return the legend: a name for each colour."""
    return element(
        "ul",
        [
            element("li", element("span", "", class_="key", style=f"background:{color}"), name)
            for name, color in keys
        ],
        class_="legend",
    )
