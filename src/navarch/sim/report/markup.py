"""Markup that cannot be broken out of: whatever is not markup already is escaped."""

from html import escape

VOID = frozenset({"meta", "input", "br", "line", "rect", "path"})


class Markup(str):
    """Text that is markup, and was made by `element` or written in this package."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` stands for `class`, and `_` in names for `-`.

    Attributes that are None are left out.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{together(*children)}</{name}>")


def together(*children: object) -> Markup:
    """Return markup and texts one after the other; a sequence stands for what is in it."""
    return Markup("".join(_plain(child) for child in children))


def _plain(child: object) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return together(*child)
    return escape(str(child))


def table(head: tuple[str, ...], rows: list[tuple[object, ...]], **attributes: object) -> Markup:
    """Return a table; numbers stand on the right."""
    return element(
        "table",
        element("thead", element("tr", [element("th", name, scope="col") for name in head])),
        element("tbody", [element("tr", [_cell(value) for value in row]) for row in rows]),
        **attributes,
    )


def _cell(value: object) -> Markup:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = "-" if value is None else words(value) if isinstance(value, int | float) else value
    return element("td", shown, class_="number" if number or value is None else None)


def words(value: float | None) -> str:
    """Return a number for people."""
    if value is None:
        return "-"
    whole, _, rest = f"{value:,.4f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def span_of(seconds: float) -> str:
    """Return a length of time as people say it: `2d 3h`, `4m 10s`, `2.3s`."""
    if seconds < 60:
        return f"{words(round(seconds, 1))}s"
    parts = []
    left = round(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
