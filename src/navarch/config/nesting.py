"""Nesting: kinds of value that are blocks themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from navarch.config.block import read_block
from navarch.config.kinds import name_remedy
from navarch.config.reading import Refused, Scope
from navarch.config.schema import plain_block
from navarch.config.suggestion import suggest
from navarch.config.tree import Entries, Entry, Tree, describe, is_nothing

B = TypeVar("B")


class HasType(Protocol):
    """A block that says which of several it is."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(Generic[V]):
    """One of several blocks; which one, the block says itself under `type`."""

    options: Callable[[Mapping[str, object]], Mapping[str, type[Any]]]
    """Returns the blocks by type, given what is known about the file."""
    unknown: str
    """Begins the message for a type that does not exist."""
    noun: str = "a mapping"

    def read(self, node: Tree, scope: Scope) -> V:
        """Return the block of the type it says it is."""
        return self.read_named(node, scope, given={})

    def read_named(self, node: Tree, scope: Scope, given: Mapping[str, object]) -> V:
        """Return the block, with fields that the file does not spell out."""
        if is_nothing(node):
            node = Entries(entries=(), place=scope.home)
        if not isinstance(node, Entries):
            raise scope.wrong_type(node, self.noun, "{type: ...}")
        options = self.options(scope.reading.context)
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
        raise scope.refuse(leaf, f"{self.unknown}: {leaf.shown}", f"{remedy}known are {known}")

    def plain(self, value: V) -> object:
        """Return a mapping that begins with its type."""
        return {"type": value.type, **plain_block(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Blocks by name: `pools` and `providers`."""

    subject: str
    """What one of them is called in messages."""
    each: Nested[Any] | Tagged[Any]
    absent: Callable[[Mapping[str, object]], Mapping[str, object]] = lambda _: {}
    """What stands in for keys that are left out, given the rest of the file."""
    check: Callable[[str], str | None] = name_remedy
    """What to write in place of a name that cannot be used."""
    noun: str = "a mapping (name to settings)"

    def read(self, node: Tree, scope: Scope) -> Mapping[str, Any]:
        """Return the blocks by name; all that is wrong in any of them is noted."""
        if is_nothing(node):
            return {}
        if not isinstance(node, Entries):
            raise scope.refuse(
                node,
                f"{scope.label} must be a mapping from name to settings, not {describe(node)}",
                f"write the {self.subject}'s name as a key, and its settings below it",
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
            part.refuse(entry.key, f"this is not a name for a {self.subject}", remedy)
        given = {"name": name}
        if isinstance(self.each, Tagged):
            made = self.each.read_named(entry.value, part, given)
        else:
            absent = self.absent(scope.reading.context)
            made = read_block(self.each.cls, entry.value, part, given=given, absent=absent)
        if remedy is not None:
            raise Refused(name)
        return made

    def plain(self, value: Mapping[str, Any]) -> object:
        """Return a mapping."""
        return {name: self.each.plain(each) for name, each in value.items()}
