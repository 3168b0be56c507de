"""The tree of a YAML document: what was written and where, nothing interpreted yet."""

from dataclasses import dataclass
from typing import TypeAlias

from navarch.config.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A scalar."""

    text: str
    tag: str
    """What YAML takes it for: str, int, float, bool, null or timestamp."""
    place: Place
    plain: bool = True
    """Written without quotes."""
    written: str | None = None
    """How it stands in the file, if variables have been put in since."""

    @property
    def shown(self) -> str:
        """How to quote it to a person: as it stands in the file, never what a variable held."""
        text = self.text if self.written is None else self.written
        short = text if len(text) <= 40 else text[:37] + "..."
        return "".join(c if c.isprintable() else " " for c in short)


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    items: tuple["Tree", ...]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key with its value."""

    key: Leaf
    value: "Tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A mapping. No key occurs twice."""

    entries: tuple[Entry, ...]
    place: Place

    def get(self, name: str) -> Entry | None:
        """Return the entry of that name."""
        return next((entry for entry in self.entries if entry.key.text == name), None)


Tree: TypeAlias = Leaf | Items | Entries


def is_nothing(tree: Tree) -> bool:
    """Whether nothing was written: `key:` and no value."""
    return isinstance(tree, Leaf) and tree.tag == "null"


def is_empty(tree: Tree) -> bool:
    """Whether there is nothing in it: no value, no items, no entries."""
    match tree:
        case Items(items=()) | Entries(entries=()):
            return True
    return is_nothing(tree)


def describe(tree: Tree) -> str:
    """Return what a value is, in the words of an error message."""
    match tree:
        case Items():
            return "a list"
        case Entries():
            return "a mapping"
        case Leaf(tag="null"):
            return "nothing"
        case Leaf(plain=False):
            return f'the text "{tree.shown}"'
        case _:
            return f'"{tree.shown}"'
