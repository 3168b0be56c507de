"""Blocks: mappings of the file to dataclasses, alone, nested, by type or by name."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from navarch.config.context import Refused, Scope, escape
from navarch.config.document import (
    Entries,
    Entry,
    Items,
    Leaf,
    Tree,
    describe,
    is_empty,
    is_nothing,
    resolve_tag,
)
from navarch.config.errors import MOVED, Place, did_you_mean, suggest
from navarch.config.kinds import ScalarKind, SecretText, Text, name_remedy, read_secret_file
from navarch.config.schema import Key, Rule, key, key_names, keys_of, plain_block, rules_of

B = TypeVar("B")

_SUGGESTIONS_MAX = 100
"""Unknown keys with a suggestion; searching for more would let a hostile file waste time."""


def read_block(
    cls: type[B],
    node: Tree,
    scope: Scope,
    *,
    given: Mapping[str, object] | None = None,
    absent: Mapping[str, object] | None = None,
    tag: str = "",
    siblings: Mapping[str, type] | None = None,
    publish: bool = False,
) -> B:
    """Return a block, or record all of its problems and raise Refused.

    `given` are fields that are not keys of the file, `absent` values for keys that are left out,
    `tag` the key that selects the class of the block, `siblings` the other classes it could select.
    With `publish`, the rules of later blocks can use each value.
    """
    if is_nothing(node):
        node = Entries(entries=(), place=scope.home)
    if not isinstance(node, Entries):
        raise scope.wrong_type(node, "a mapping", "")
    reader = _BlockReader(cls, node, scope, dict(absent or {}))
    reader.refuse_unknown(tag, siblings or {})
    reader.read_keys(publish=publish)
    reader.apply_rules(given or {})
    if reader.failed:
        raise Refused(scope.label)
    return cls(**(given or {}), **reader.values)


@functools.cache
def _needs(rule: Rule) -> tuple[str, ...]:
    return tuple(inspect.signature(rule).parameters)


class _BlockReader:
    """Reads one block: its keys, then its rules."""

    def __init__(self, cls: type, node: Entries, scope: Scope, absent: dict[str, object]) -> None:
        self.cls = cls
        self.node = node
        self.scope = scope
        self.absent = absent
        self.keys = keys_of(cls)
        self.values: dict[str, object] = {}
        self.failed = False

    def refuse_unknown(self, tag: str, siblings: Mapping[str, type]) -> None:
        known = {*key_names(self.cls), tag}
        top = not self.scope.label
        for entry in self.node.entries:
            name = entry.key.text
            if name in known or (top and name.startswith("x-")):
                continue
            self.failed = True
            remedy = self._unknown_remedy(name, siblings)
            self.scope.refuse(entry.key, f'unknown key "{entry.key.shown}"', remedy)

    def _unknown_remedy(self, name: str, siblings: Mapping[str, type]) -> str:
        owners = [other for other, cls in siblings.items() if name in key_names(cls)]
        if owners:
            return f"that is a key of type {' and '.join(owners)}"
        if name in MOVED:
            return MOVED[name]
        if len(self.scope.context.problems) > _SUGGESTIONS_MAX:
            return ""
        names = key_names(self.cls)
        return did_you_mean(name, names, f"valid keys: {', '.join(names)}")

    def read_keys(self, *, publish: bool) -> None:
        for name, declared in self.keys.items():
            try:
                self.values[name] = self._value(declared)
            except Refused:
                self.failed = True
            else:
                if publish:
                    self.scope.context.published[name] = self.values[name]

    def _value(self, declared: Key) -> object:
        entry = self.node.get(declared.name)
        file = self.node.get(f"{declared.name}_file") if declared.file else None
        if entry and file:
            message = f"cannot specify both {declared.name} and {declared.name}_file"
            raise self.scope.refuse(file.key, message, "keep one of the two")
        if file:
            part = self.scope.within(f"{declared.name}_file", home=file.key.place)
            assert isinstance(declared.kind, SecretText), declared.name
            return read_secret_file(declared.kind, file.value, part)
        if entry:
            part = self.scope.within(declared.name, home=entry.key.place)
            return declared.kind.read(entry.value, part)
        return self._absent(declared)

    def _absent(self, declared: Key) -> object:
        if declared.name in self.absent:
            return self.absent[declared.name]
        if declared.file:
            variable = str(self.values.get(declared.environment_key, declared.environment))
            text = self.scope.context.environment.get(variable)
            part = self.scope.within(f"the environment variable {variable}")
            assert isinstance(declared.kind, SecretText), declared.name
            return declared.kind.resolve(text, self.scope.home, part) if text else declared.default
        text = self.scope.context.environment.get(declared.environment)
        if text:
            part = self.scope.within(f"the environment variable {declared.environment}")
            tag = resolve_tag(text) if isinstance(declared.kind, ScalarKind) else "str"
            leaf = Leaf(text=escape(text), tag=tag, place=part.home, plain=False)
            return declared.kind.read(leaf, part)
        if is_dataclass(declared.default):
            # A missing block is read as an empty one: the environment may provide its values.
            part = self.scope.within(declared.name)
            return declared.kind.read(Entries(entries=(), place=part.home), part)
        if declared.required:
            message = f"{declared.name} is required"
            raise self.scope.refuse(
                self.scope.home, message, f"add {declared.name}: {declared.doc}"
            )
        return declared.default

    def apply_rules(self, given: Mapping[str, object]) -> None:
        present = frozenset(
            entry.key.text for entry in self.node.entries if not is_empty(entry.value)
        )
        # A key of this block shadows a published value of the same name, even if it is invalid.
        outside = {k: v for k, v in self.scope.context.published.items() if k not in self.keys}
        known = {**outside, **given, **self.values, "present": present}
        for rule in rules_of(self.cls):
            needs = _needs(rule)
            if not all(name in known for name in needs):
                continue
            for fault in rule(**{name: known[name] for name in needs}):
                at = self._find(fault.at)
                if fault.warning:
                    self.scope.warn(at, fault.message, fault.remedy)
                else:
                    self.failed = True
                    self.scope.refuse(at, fault.message, fault.remedy)

    def _find(self, path: tuple[str | int, ...]) -> Tree | Place:
        """Return the value at a path, or the nearest enclosing one that exists."""
        node: Tree = self.node
        found: Tree | Place = self.scope.home
        for step in path:
            if isinstance(step, str) and isinstance(node, Entries):
                entry = node.get(step)
                if entry is None:
                    break
                node = entry.value
                found = node if isinstance(node, Leaf) and node.tag != "null" else entry.key
            elif isinstance(step, int) and isinstance(node, Items) and step < len(node.items):
                found = node = node.items[step]
        return found


class HasType(Protocol):
    """A block with a `type`."""

    type: ClassVar[str]


V = TypeVar("V", bound=HasType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested(Generic[B]):
    """A block within a block."""

    cls: type[B]
    noun: str = "a mapping"

    def read(self, node: Tree, scope: Scope) -> B:
        """Return the block."""
        return read_block(self.cls, node, scope)

    def plain(self, value: B) -> object:
        """Return a mapping."""
        return plain_block(value)


def nested(cls: type[B], doc: str) -> B:
    """Declare a key with a block; a missing block is read as an empty one."""
    return key(Nested(cls=cls), doc, default=cls())


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedOrName(Nested[B]):
    """A block, or only the value of its main key."""

    main: str
    kind: Text

    def read(self, node: Tree, scope: Scope) -> B:
        """Return the block."""
        if isinstance(node, Leaf) and not is_nothing(node):
            return self.cls(**{self.main: self.kind.read(node, scope)})
        return read_block(self.cls, node, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(Generic[V]):
    """One of several blocks, selected by the key `type`."""

    options: Callable[[Mapping[str, object]], Mapping[str, type[Any]]]
    """Returns the blocks by type, given the published values of the file."""
    unknown: str
    """The start of the message for an unknown type."""
    noun: str = "a mapping"

    def read(self, node: Tree, scope: Scope) -> V:
        """Return the block of the type that the file selects."""
        return self.read_named(node, scope, given={})

    def read_named(self, node: Tree, scope: Scope, given: Mapping[str, object]) -> V:
        """Return the block, with fields that are not keys of the file."""
        if is_nothing(node):
            node = Entries(entries=(), place=scope.home)
        if not isinstance(node, Entries):
            raise scope.wrong_type(node, self.noun, "{type: ...}")
        options = self.options(scope.context.published)
        cls = self._choose(options, node, scope)
        return read_block(cls, node, scope, given=given, tag="type", siblings=options)

    def _choose(self, options: Mapping[str, type[V]], node: Entries, scope: Scope) -> type[V]:
        names = list(options)
        entry = node.get("type")
        if entry is None or is_nothing(entry.value):
            at = entry.value if entry else scope.home
            raise scope.refuse(at, "type is required", f"write type: {' or '.join(names)}")
        leaf = scope.within("type").leaf(entry.value, "text", names[0])
        if leaf.text in options:
            return options[leaf.text]
        close = suggest(leaf.text, names)
        remedy = f'did you mean "{close}"? ' if close else ""
        known = ", ".join(names)
        raise scope.refuse(leaf, f"{self.unknown}: {leaf.shown}", f"{remedy}valid types: {known}")

    def plain(self, value: V) -> object:
        """Return a mapping that begins with its type."""
        return {"type": value.type, **plain_block(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Blocks by name: `pools` and `providers`."""

    subject: str
    """The word for one of them in messages."""
    each: Nested[Any] | Tagged[Any]
    absent: Callable[[Mapping[str, object]], Mapping[str, object]] = lambda _: {}
    """Returns values for keys that are left out, given the published values of the file."""
    check: Callable[[str], str | None] = name_remedy
    """Returns the remedy for an invalid name, or None."""
    noun: str = "a mapping (name to settings)"

    def read(self, node: Tree, scope: Scope) -> Mapping[str, Any]:
        """Return the blocks by name, after recording the problems of all of them."""
        if is_nothing(node):
            return {}
        if not isinstance(node, Entries):
            raise scope.refuse(
                node,
                f"{scope.label} must be a mapping from name to settings, not {describe(node)}",
                f"write the {self.subject}'s name as a key, and its settings below",
            )
        blocks: dict[str, Any] = {}
        for entry in node.entries:
            try:
                blocks[entry.key.text] = self._one(entry, scope)
            except Refused:
                continue
        if len(blocks) < len(node.entries):
            raise Refused(scope.label)
        return blocks

    def _one(self, entry: Entry, scope: Scope) -> object:
        name = entry.key.text
        subject = f'{self.subject} "{entry.key.shown}"'
        part = scope.within(name, home=entry.key.place, subject=subject)
        remedy = self.check(name)
        if remedy is not None:
            part.refuse(entry.key, f"this is not a valid name for a {self.subject}", remedy)
        given = {"name": name}
        if isinstance(self.each, Tagged):
            made = self.each.read_named(entry.value, part, given)
        else:
            absent = self.absent(scope.context.published)
            made = read_block(self.each.cls, entry.value, part, given=given, absent=absent)
        if remedy is not None:
            raise Refused(name)
        return made

    def plain(self, value: Mapping[str, Any]) -> object:
        """Return a mapping."""
        return {name: self.each.plain(each) for name, each in value.items()}
