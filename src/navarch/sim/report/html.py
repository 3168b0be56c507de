"""HTML pages: elements with escaped content, and the style and script of every page."""

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
