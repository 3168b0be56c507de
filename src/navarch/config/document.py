"""YAML documents: untrusted text to a tree of values, each with its line and column."""

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from navarch.config.errors import ConfigError, Place, Problem, Source

TEXT_MAX = 1 << 20
"""Characters. A thousand pools take about a third of this."""

DEPTH_MAX = 32
NODES_MAX = 100_000
ALIASES_MAX = 1_000

_SMALLER = "split the fleet over several control planes, or shorten the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A scalar."""

    text: str
    tag: str
    """The type that YAML infers: str, int, float, bool, null or timestamp."""
    place: Place
    plain: bool = True
    """Written without quotes."""
    written: str | None = None
    """The text in the file, if variables have been expanded since."""

    @property
    def shown(self) -> str:
        """The text to quote in messages: as written, never the value of a variable."""
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
    """A mapping with unique keys."""

    entries: tuple[Entry, ...]
    place: Place

    def get(self, name: str) -> Entry | None:
        """Return the entry of that name."""
        return next((entry for entry in self.entries if entry.key.text == name), None)


Tree: TypeAlias = Leaf | Items | Entries


def is_nothing(tree: Tree) -> bool:
    """Return whether a key has no value: `key:`."""
    return isinstance(tree, Leaf) and tree.tag == "null"


def is_empty(tree: Tree) -> bool:
    """Return whether a value is missing, an empty list or an empty mapping."""
    match tree:
        case Items(items=()) | Entries(entries=()):
            return True
    return is_nothing(tree)


def describe(tree: Tree) -> str:
    """Return the name of a value's type for error messages."""
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


_TAG_PREFIX = "tag:yaml.org,2002:"


def resolve_tag(text: str) -> str:
    """Return the type that YAML infers for an unquoted scalar: int for 5, bool for true."""
    tag: str = Resolver().resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag.removeprefix(_TAG_PREFIX)


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C is ten times as fast, but not installed everywhere."""

_TAGS = frozenset({"str", "int", "float", "bool", "null", "timestamp", "value", "merge"})

_FORBIDDEN = re.compile(
    "[^\\x09\\x0A\\x0D\\x20-\\x7E\\x85\\xA0-\\uD7FF\\uE000-\\uFFFD\\U00010000-\\U0010FFFF]"
)


def parse_document(
    source: Source,
    problems: list[Problem],
    *,
    loader: Any = LOADER,  # noqa: ANN401
) -> Tree | None:
    """Return the tree of a document, or None if it is empty.

    Raises ConfigError if no tree can be built. Other problems, such as a duplicate key, are
    added to `problems`.
    """
    if len(source.text) > TEXT_MAX:
        message = f"longer than {TEXT_MAX} characters"
        raise _unparsable(Problem(source=source.name, message=message, remedy=_SMALLER))
    forbidden = _FORBIDDEN.search(source.text)
    if forbidden is not None:
        place = source.place_of(forbidden.start())
        code = f"U+{ord(forbidden[0]):04X}"
        message = f"the character {code} is not allowed"
        raise _unparsable(source.problem(place, message, "delete it"))
    try:
        counter = _SizeCounter(source)
        for event in yaml.parse(source.text, Loader=loader):
            problem = counter.take(event)
            if problem is not None:
                raise _unparsable(problem)
        root = yaml.compose(source.text, Loader=loader)
    except yaml.YAMLError as error:
        raise _unparsable(_syntax_problem(source, error)) from error
    return None if root is None else _TreeBuilder(source, problems).tree(root)


def _unparsable(problem: Problem) -> ConfigError:
    return ConfigError([problem], stage="parsing config")


def _syntax_problem(source: Source, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    detail = getattr(error, "problem", None) or "it cannot be parsed"
    message = f"not valid YAML: {detail}"
    if mark is None:
        return Problem(source=source.name, message=message)
    line = source.lines[mark.line] if mark.line < len(source.lines) else ""
    remedy = "look for a missing colon, quote or bracket here or on the line above"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        remedy = "indent with spaces; YAML does not allow tabs there"
    elif "${" in line:
        remedy = 'inside {...} and [...] a variable needs quotes: "${NAME}"'
    return source.problem(Place(mark.line + 1, mark.column + 1), message, remedy)


class _TreeBuilder:
    """Converts YAML nodes to a tree. A node with several aliases is converted once."""

    def __init__(self, source: Source, problems: list[Problem]) -> None:
        self._source = source
        self._problems = problems
        self._done: dict[int, Tree] = {}

    def tree(self, node: yaml.Node) -> Tree:
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = self._tree(node)
        return known

    def _tree(self, node: yaml.Node) -> Tree:
        match node:
            case yaml.MappingNode():
                return self._entries(node)
            case yaml.SequenceNode():
                items = tuple(self.tree(item) for item in node.value)
                return Items(items=items, place=_place(node))
        return self._leaf(node)

    def _leaf(self, node: yaml.Node) -> Leaf:
        tag = node.tag.removeprefix(_TAG_PREFIX)
        if tag not in _TAGS:
            self._note(node, f'the tag "{node.tag}" is not supported', "leave it out")
            tag = "str"
        return Leaf(
            text=str(node.value), tag=tag, place=_place(node), plain=not getattr(node, "style", "")
        )

    def _entries(self, node: yaml.MappingNode) -> Entries:
        if node.tag != f"{_TAG_PREFIX}map":
            self._note(node, f'the tag "{node.tag}" is not supported', "leave it out")
        entries: dict[str, Entry] = {}
        merged: list[Entry] = []
        for key, value in node.value:
            if key.tag == f"{_TAG_PREFIX}merge":
                merged += self._merged(value)
            elif not isinstance(key, yaml.ScalarNode):
                self._note(key, "a key must be a name", "write name: value")
            else:
                self._add(entries, Entry(key=self._leaf(key), value=self.tree(value)))
        for entry in merged:
            entries.setdefault(entry.key.text, entry)
        return Entries(entries=tuple(entries.values()), place=_place(node))

    def _add(self, entries: dict[str, Entry], entry: Entry) -> None:
        first = entries.setdefault(entry.key.text, entry)
        if first is not entry:
            message = f'duplicate key "{entry.key.shown}"'
            remedy = f"it is already on line {first.key.place.line}; keep one of the two"
            self._problems.append(self._source.problem(entry.key.place, message, remedy))

    def _merged(self, value: yaml.Node) -> list[Entry]:
        """Return the entries of `<<: *base` or `<<: [*one, *two]`; earlier ones take precedence."""
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        found: list[Entry] = []
        for each in sources:
            tree = self.tree(each)
            if isinstance(tree, Entries):
                found += tree.entries
            else:
                self._note(each, "<< merges mappings", "write <<: *name, where &name is a mapping")
        return found

    def _note(self, node: yaml.Node, message: str, remedy: str) -> None:
        self._problems.append(self._source.problem(_place(node), message, remedy))


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


@dataclass(slots=True)
class _OpenCollection:
    """An unfinished collection; its size and height count expanded aliases."""

    anchor: str | None
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _SizeCounter:
    source: Source
    open: list[_OpenCollection] = field(default_factory=list)
    anchors: dict[str, tuple[int, int]] = field(default_factory=dict)
    aliases: int = 0
    documents: int = 0
    nodes: int = 0

    def take(self, event: yaml.Event) -> Problem | None:
        """Count one event; return the limit that it exceeds, if any."""
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    text = "a second document begins here"
                    return self._problem(event, text, "keep one per file")
            case yaml.AliasEvent():
                return self._alias(event)
            case yaml.ScalarEvent():
                return self._closed(event, event.anchor, 1, 0)
            case yaml.CollectionStartEvent():
                self.open.append(_OpenCollection(event.anchor))
                return self._deep(event, len(self.open))
            case yaml.CollectionEndEvent():
                done = self.open.pop()
                return self._closed(event, done.anchor, done.size, done.height)
        return None

    def _alias(self, event: yaml.AliasEvent) -> Problem | None:
        name = event.anchor
        self.aliases += 1
        if self.aliases > ALIASES_MAX:
            return self._problem(event, f"more than {ALIASES_MAX} aliases", _SMALLER)
        if any(collection.anchor == name for collection in self.open):
            return self._problem(event, f"*{name} is inside &{name}, so it would never end")
        if name not in self.anchors:
            return self._problem(event, f"*{name} has no anchor", f"write &{name} above it")
        return self._closed(event, None, *self.anchors[name])

    def _closed(
        self, event: yaml.Event, anchor: str | None, size: int, height: int
    ) -> Problem | None:
        if anchor is not None:
            self.anchors[anchor] = (size, height)
        total = size
        if self.open:
            around = self.open[-1]
            around.size += size
            around.height = max(around.height, height + 1)
            total = around.size
        if total > NODES_MAX:
            text = f"more than {NODES_MAX} values, counting each alias in full"
            return self._problem(event, text, _SMALLER)
        return self._deep(event, len(self.open) + height)

    def _deep(self, event: yaml.Event, depth: int) -> Problem | None:
        if depth > DEPTH_MAX:
            return self._problem(event, f"nested more than {DEPTH_MAX} deep", _SMALLER)
        return None

    def _problem(self, event: yaml.Event, message: str, remedy: str = "") -> Problem:
        mark = event.start_mark
        assert mark is not None, "parsed events have a place"
        return self.source.problem(Place(mark.line + 1, mark.column + 1), message, remedy)
