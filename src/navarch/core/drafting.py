"""Frozen records that are quick to make, to compare and to change.

A fleet at work is one record replaced by the next, and a frozen dataclass is slow at all of that:
it is filled by a call by name for each field, to get around the lock that it put on itself, and
it compares itself by two tuples of all that it holds. Here the dataclass is only the draft. What
is built from it is a struct of `msgspec`, which does the same without a line of Python and says of
itself all that a dataclass says.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from types import FunctionType, MemberDescriptorType, new_class
from typing import Any, NoReturn, TypeVar, cast

import msgspec

Record = TypeVar("Record")

_A_STRUCTS_OWN = frozenset(
    {
        *("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"),
        *("__getstate__", "__setstate__", "__slots__", "__match_args__"),
    }
)
"""What `dataclasses` writes into a class, and a struct brings along."""


def drafted(draft: type[Record]) -> type[Record]:
    """Build what a frozen dataclass with slots describes: for those made all the time.

    What it takes, what it leaves out and what it means stays the same. Such a class is not to be
    inherited from: an heir that is a dataclass would take it for one.
    """
    known = fields(cast(Any, draft))
    if not _is_plain(draft, known):
        raise TypeError(f"{draft.__name__} is more than a frozen dataclass with slots of its own")
    options = {"frozen": True, "kw_only": any(field.kw_only for field in known)}
    body = _body(draft, known)
    built = new_class(draft.__name__, (msgspec.Struct,), options, lambda names: names.update(body))
    setattr(built, "__init_subclass__", classmethod(_refuse_heir))  # noqa: B010 - it has no such
    return built


def _is_plain(draft: type, known: tuple[Field[Any], ...]) -> bool:
    """Return whether a struct is all that it takes: with its own slots, and nothing by hand."""
    slots = tuple(field.name for field in known if field.init)
    if draft.__bases__ != (object,) or vars(draft).get("__slots__") != slots:
        return False
    if slots != tuple(vars(draft)["__dataclass_fields__"]):
        return False  # Something is handed to its `__init__` that is no field.
    if len({field.kw_only for field in known}) > 1:
        return False
    if not all(field.compare and field.repr and field.hash is None for field in known):
        return False
    said = vars(draft)["__dataclass_params__"]
    if not (said.init and said.repr and said.eq and said.frozen) or said.order:
        return False
    return not any(map(_is_by_hand, (vars(draft).get(name) for name in _A_STRUCTS_OWN)))


def _is_by_hand(method: object) -> bool:
    """Return whether somebody wrote a method that `dataclasses` would have written."""
    if not isinstance(method, FunctionType):
        return False
    return inspect.unwrap(method).__code__.co_filename not in ("<string>", dataclasses.__file__)


def _body(draft: type, known: tuple[Field[Any], ...]) -> Mapping[str, object]:
    """Return what stands in the class: its words, its methods and the defaults of its fields."""
    body = {
        name: value
        for name, value in vars(draft).items()
        if name not in _A_STRUCTS_OWN and not isinstance(value, MemberDescriptorType)
    }
    for field in known:
        if field.default_factory is not MISSING:
            body[field.name] = msgspec.field(default_factory=field.default_factory)
        elif field.default is not MISSING:
            body[field.name] = field.default
    return body


def _refuse_heir(kind: type, /, **_: object) -> NoReturn:
    raise TypeError(f"{kind.__name__}: a drafted record is not to be inherited from")
