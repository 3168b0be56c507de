"""Frozen records that are quick to make.

A frozen record is written once, by its `__init__`, and there `dataclasses` has to get around the
lock that it put on the record: a call by name for each field, which is most of what making it
takes. Here a record is drafted first. While it is filled in it belongs to a twin of its class that
has the same slots and no lock, so that a field is set as any attribute is. Then it is declared to
be what it is, and from then on it is as frozen as the others.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, NoReturn, TypeVar

Record = TypeVar("Record")

declare: Callable[[object, type], None] = object.__dict__["__class__"].__set__
"""Says of which class an object is, whatever lock its own class has put on it."""

_twins: dict[type, type | None] = {}


class _Factory:
    """Stands in the signature for what is made anew for each record."""

    def __repr__(self) -> str:
        return "<factory>"


def drafted(kind: type[Record]) -> type[Record]:
    """Give a frozen dataclass with slots an `__init__` that drafts: for those made all the time.

    What it takes, what it leaves out and what it means stays the same. Such a class is not to be
    inherited from, since its `__init__` makes records of this class only.
    """
    twin = twin_of(kind)
    if twin is None:
        raise TypeError(f"{kind.__name__} is more than a frozen dataclass with slots of its own")
    was = kind.__init__
    made = _compile_init(kind, twin)
    made.__qualname__, made.__doc__, made.__module__ = was.__qualname__, was.__doc__, was.__module__
    made.__annotations__ = dict(was.__annotations__)
    setattr(kind, "__init__", made)  # noqa: B010 - a class is not to be written to otherwise
    setattr(kind, "__init_subclass__", classmethod(_refuse_heir))  # noqa: B010
    return kind


def twin_of(kind: type) -> type | None:
    """Return the class in which records of that kind are drafted; None where that cannot be.

    It cannot where more belongs to a record than the slots that its own class has given it.
    """
    if kind not in _twins:
        _twins[kind] = _make_twin(kind)
    return _twins[kind]


def _make_twin(kind: type) -> type | None:
    slots = tuple(field.name for field in fields(kind) if field.init)
    if kind.__bases__ != (object,) or kind.__dict__.get("__slots__") != slots:
        return None
    if slots != tuple(getattr(kind, "__dataclass_fields__")):  # noqa: B009 - mypy does not see it
        return None  # Something is handed to its `__init__` that is no field.
    return type(f"{kind.__name__}Draft", (), {"__slots__": slots})


def _compile_init(kind: type, twin: type) -> Callable[..., None]:
    known = fields(kind)
    by_place = [_parameter(field) for field in known if not field.kw_only]
    by_name = [_parameter(field) for field in known if field.kw_only]
    takes = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    lines = ["__declare__(self, __twin__)"]
    lines += [f"self.{field.name} = {_value(field)}" for field in known]
    lines.append("self.__class__ = __kind__")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    text = "\n    ".join([f"def __init__({takes}):", *lines])
    # Names that no field has: a record may well have a field that is called `kind`.
    names: dict[str, Any] = {"__declare__": declare, "__twin__": twin, "__kind__": kind}
    names["__anew__"] = _Factory()
    for field in known:
        names[f"__default_{field.name}__"] = field.default
        names[f"__make_{field.name}__"] = field.default_factory
    exec(text, names)  # Nothing but the names of fields goes into it.
    made: Callable[..., None] = names["__init__"]
    return made


def _parameter(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=__default_{field.name}__"
    return f"{field.name}=__anew__" if field.default_factory is not MISSING else field.name


def _value(field: Field[Any]) -> str:
    if field.default_factory is MISSING:
        return field.name
    return f"__make_{field.name}__() if {field.name} is __anew__ else {field.name}"


def _refuse_heir(kind: type, /, **_: object) -> NoReturn:
    raise TypeError(f"{kind.__name__}: a drafted record is not to be inherited from")
