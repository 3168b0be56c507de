"""HTML pages: elements with escaped content, and the style and script of every page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

VOID = frozenset({"meta", "input", "br", "line", "rect", "path"})

GOOD, BAD, WARN, CALM, FAINT = "#2e7d4f", "#c0392b", "#d98e04", "#3b6ea5", "#9aa5b1"

CSS = """
:root { color-scheme: light dark; --back: #fff; --text: #1f2933; --line: #d9dee4; --soft: #f4f6f8;
  --faint: #6b7785; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16191d; --text: #e4e7eb; --line: #353c45; --soft: #1f242a; --faint: #98a3af; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 960px; padding: 24px 16px 64px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 8px; }
.faint { color: var(--faint); } svg .faint { fill: var(--faint); }
.badge { display: inline-block; padding: 2px 10px; border-radius: 4px; color: #fff;
  font-weight: 600; white-space: nowrap; }
.good { background: #2e7d4f; } .bad { background: #c0392b; }
nav a { margin-right: 14px; color: inherit; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--line); padding: 4px 8px; }
td { border-bottom: 1px solid var(--line); padding: 4px 8px; vertical-align: top;
  overflow-wrap: anywhere; } td.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.wide { overflow-x: auto; }
figure.chart { margin: 16px 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif;
  fill: var(--text); } svg text.strong { font-weight: 600; } .grid { stroke: var(--line); }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 0;
  margin: 4px 0; font-size: 13px; } .key { display: inline-block; width: 12px; height: 12px;
  margin-right: 6px; border-radius: 2px; }
pre { background: var(--soft); padding: 12px; overflow-x: auto; border-radius: 4px;
  font-size: 13px; } code { font-family: ui-monospace, monospace; }
details { border-bottom: 1px solid var(--line); } summary { cursor: pointer; padding: 5px 4px; }
details table { margin: 0 0 10px 16px; width: calc(100% - 16px); }
input[type=search] { width: 100%; padding: 6px 10px; margin: 4px 0 10px; font: inherit;
  border: 1px solid var(--line); border-radius: 4px; background: var(--soft); color: inherit; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; } .two > * { min-width: 0; }
td.number { min-width: 7em; }
@media print { nav, input { display: none; } details { break-inside: avoid; } }
@media (max-width: 640px) { .two { grid-template-columns: 1fr; } }
"""

SCRIPT = """
for (const box of document.querySelectorAll('input[data-filters]')) {
  const held = document.getElementById(box.dataset.filters);
  box.addEventListener('input', () => {
    const wanted = box.value.toLowerCase();
    for (const each of held.querySelectorAll('[data-text]'))
      each.hidden = !each.dataset.text.toLowerCase().includes(wanted);
  });
}
"""

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page may load no other resource."""


class Markup(str):
    """A text that is inserted without escaping."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is written as `class`, and `_` in other names as `-`.

    Attributes that are None are left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Return the concatenation of markup and escaped texts, with sequences flattened."""
    return Markup("".join(_plain(child) for child in children))


def _plain(child: object) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return join(*child)
    return escape(str(child))


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> Markup:
    """Return a table, with numbers aligned to the right."""
    return element(
        "table",
        element("thead", element("tr", [element("th", name, scope="col") for name in head])),
        element("tbody", [element("tr", [_cell(value) for value in row]) for row in rows]),
    )


def _cell(value: object) -> Markup:
    if value is None or isinstance(value, int | float):
        return element("td", render_number(value), class_="number")
    return element("td", value)


def render_number(value: float | None) -> str:
    """Return a number with thousands separators and at most four decimals."""
    if value is None:
        return "-"
    whole, _, rest = f"{value:,.4f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def render_span(seconds: float) -> str:
    """Return a duration in its two largest units: `2d 3h`, `4m 10s`, `2.3s`."""
    if seconds < 60:
        return f"{render_number(round(seconds, 1))}s"
    parts = []
    left = round(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def document(title: str, *body: object) -> str:
    """Return a whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}"/>'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        Markup(f"<style>{CSS}</style>"),
    )
    script = Markup(f"<script>{SCRIPT}</script>")
    return (
        "<!doctype html>\n"
        + element("html", head, element("body", join(*body), script), lang="en")
        + "\n"
    )


def badge(good: bool, yes: str, no: str) -> Markup:
    """Return a badge: `yes` in green, or `no` in red."""
    return element("span", yes if good else no, class_=f"badge {'good' if good else 'bad'}")


def section(name: str, title: str, *body: object) -> Markup:
    """Return a section that can be linked to."""
    return element("section", element("h2", title), join(*body), id=name)


def search(held: str, what: str) -> Markup:
    """Return a search box that filters the children of the element with the id `held`."""
    return element("input", type="search", data_filters=held, placeholder=what, aria_label=what)


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
