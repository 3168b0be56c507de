"""Blocks: a mapping in the file to a dataclass, with everything that is wrong noted."""

import functools
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import TypeVar

from navarch.config.kinds import SECRET
from navarch.config.place import Place
from navarch.config.reading import Refused, Scope
from navarch.config.schema import Fault, Key, Rule, key_names, keys_of, rules_of
from navarch.config.secretfile import read_secret_file
from navarch.config.suggestion import MOVED, suggest
from navarch.config.tree import Entries, Items, Leaf, Tree, is_empty, is_nothing

B = TypeVar("B")

_SUGGESTIONS_MAX = 100
"""Looking for the name that was meant takes time that a hostile file must not be given."""


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
    """Return a block, or note all that is wrong with it and raise Refused.

    `given` are fields the file does not spell out, `absent` what stands in for keys it leaves
    out, `tag` the key that told which block this is, `siblings` the blocks it might have been.
    With `publish`, each value is there for the rules of those that are read after it.
    """
    if is_nothing(node):
        node = Entries(entries=(), place=scope.home)
    if not isinstance(node, Entries):
        raise scope.wrong_type(node, "a mapping", "")
    pass_ = _Pass(cls, node, scope, dict(absent or {}))
    pass_.refuse_unknown(tag, siblings or {})
    pass_.read_keys(publish=publish)
    pass_.apply_rules(given or {})
    if pass_.failed:
        raise Refused(scope.label)
    return cls(**(given or {}), **pass_.values)


@functools.cache
def _needs(rule: Rule) -> tuple[str, ...]:
    return tuple(inspect.signature(rule).parameters)


class _Pass:
    """One block being read."""

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
        if len(self.scope.reading.problems) > _SUGGESTIONS_MAX:
            return ""
        names = key_names(self.cls)
        close = suggest(name, names)
        return f'did you mean "{close}"?' if close else f"known are {', '.join(names)}"

    def read_keys(self, *, publish: bool) -> None:
        for name, declared in self.keys.items():
            try:
                self.values[name] = self._value(declared)
            except Refused:
                self.failed = True
            else:
                if publish:
                    self.scope.reading.context[name] = self.values[name]

    def _value(self, declared: Key) -> object:
        entry = self.node.get(declared.name)
        file = self.node.get(f"{declared.name}_file") if declared.file else None
        if entry and file:
            message = f"cannot specify both {declared.name} and {declared.name}_file"
            raise self.scope.refuse(file.key, message, "keep one of the two")
        if file:
            part = self.scope.within(f"{declared.name}_file", home=file.key.place)
            return read_secret_file(file.value, part)
        if entry:
            part = self.scope.within(declared.name, home=entry.key.place)
            return declared.kind.read(entry.value, part)
        return self._absent(declared)

    def _absent(self, declared: Key) -> object:
        if declared.name in self.absent:
            return self.absent[declared.name]
        if declared.file:
            return self._from_environment(declared)
        if is_dataclass(declared.default):
            # A block that is left out is an empty one: it may still take from the environment.
            part = self.scope.within(declared.name)
            return declared.kind.read(Entries(entries=(), place=part.home), part)
        if declared.required:
            message = f"{declared.name} is required"
            raise self.scope.refuse(
                self.scope.home, message, f"add {declared.name}: {declared.doc}"
            )
        return declared.default

    def _from_environment(self, declared: Key) -> object:
        variable = str(self.values.get(declared.environment_key, declared.environment))
        text = self.scope.reading.environment.get(variable)
        part = self.scope.within(f"the environment variable {variable}")
        return SECRET.wrap(text, self.scope.home, part) if text else declared.default

    def apply_rules(self, given: Mapping[str, object]) -> None:
        present = frozenset(
            entry.key.text for entry in self.node.entries if not is_empty(entry.value)
        )
        # A key of this block hides what has the same name elsewhere in the file, readable or not.
        outside = {k: v for k, v in self.scope.reading.context.items() if k not in self.keys}
        known = {**outside, **given, **self.values, "present": present}
        for rule in rules_of(self.cls):
            needs = _needs(rule)
            if all(name in known for name in needs):
                self._note(rule(**{name: known[name] for name in needs}))

    def _note(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            at = self._find(fault.at)
            if fault.warning:
                self.scope.warn(at, fault.message, fault.remedy)
            else:
                self.failed = True
                self.scope.refuse(at, fault.message, fault.remedy)

    def _find(self, path: tuple[str | int, ...]) -> Tree | Place:
        """Return what stands at a path, or the nearest thing around it that is there."""
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
