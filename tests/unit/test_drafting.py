"""A drafted record is what `dataclasses` would have made of its class, only sooner."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import InitVar, dataclass, field
from typing import get_type_hints

import msgspec
import pytest

from navarch.core.drafting import drafted


@dataclass(frozen=True, slots=True)
class Plain:
    """One made the usual way."""

    name: str
    parts: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    size: int = 1


@drafted
@dataclass(frozen=True, slots=True)
class Swift:
    """The same, drafted."""

    name: str
    parts: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainByName:
    """One that is told by name what goes where, and needs not be told the first thing."""

    parts: tuple[str, ...] = ()
    name: str


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftByName:
    """The same, drafted."""

    parts: tuple[str, ...] = ()
    name: str


@pytest.mark.parametrize(
    ("swift", "plain"), [(Swift, Plain), (SwiftByName, PlainByName)], ids=["by place", "by name"]
)
def test_it_takes_what_the_other_takes(swift: type, plain: type) -> None:
    takes, wants = inspect.signature(swift).parameters, inspect.signature(plain).parameters
    assert list(map(str, takes.values())) == list(map(str, wants.values()))
    assert get_type_hints(swift) == get_type_hints(plain)
    assert swift.__doc__
    assert (swift.__module__, swift.__qualname__) == (__name__, swift.__name__)


def test_it_is_written_and_read_as_the_other_is() -> None:
    swift, plain = SwiftByName(name="a", parts=("b",)), PlainByName(name="a", parts=("b",))
    written = msgspec.json.encode(swift)
    assert written == msgspec.json.encode(plain)
    assert msgspec.json.decode(written, type=SwiftByName) == swift
    assert msgspec.json.decode(b'{"name": "c"}', type=SwiftByName) == SwiftByName(name="c")


@pytest.mark.parametrize(
    ("by_place", "by_name"),
    [
        (("a",), {}),
        (("a", ("b",)), {"size": 3}),
        ((), {"name": "a", "facts": {"b": "c"}}),
    ],
    ids=["defaults", "by place", "by name"],
)
def test_it_holds_what_the_other_holds(
    by_place: tuple[object, ...], by_name: dict[str, object]
) -> None:
    swift, plain = Swift(*by_place, **by_name), Plain(*by_place, **by_name)  # type: ignore[arg-type]

    assert dataclasses.asdict(swift) == dataclasses.asdict(plain)
    assert repr(swift) == repr(plain).replace("Plain", "Swift")
    assert type(swift) is Swift


@pytest.mark.parametrize(
    ("by_place", "by_name"),
    [((), {}), (("a",), {"colour": "red"}), (("a", (), {}, 4, 5), {})],
    ids=["something missing", "something unknown", "too much"],
)
def test_it_refuses_what_the_other_refuses(
    by_place: tuple[object, ...], by_name: dict[str, object]
) -> None:
    for kind in (Plain, Swift):
        with pytest.raises(TypeError):
            kind(*by_place, **by_name)  # type: ignore[arg-type]


def test_one_that_wants_names_refuses_what_has_none() -> None:
    for kind in (PlainByName, SwiftByName):
        with pytest.raises(TypeError):
            kind("a")  # type: ignore[call-arg, arg-type]


def test_no_two_share_what_a_factory_made() -> None:
    assert Swift("a").facts is not Swift("a").facts


def test_it_is_frozen_and_has_no_room_for_more() -> None:
    swift = Swift("a")
    with pytest.raises(AttributeError):
        swift.name = "b"  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        swift.colour = "red"  # type: ignore[attr-defined]
    assert not hasattr(swift, "__dict__")


@drafted
@dataclass(frozen=True, slots=True)
class Pair:
    """Something that can be told apart by what it holds."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"{self.low} > {self.high}")


def test_those_that_hold_the_same_are_equal_and_hash_alike() -> None:
    assert Pair(1, 2) == Pair(1, 2) != Pair(1, 3)
    assert {Pair(1, 2): "kept"}[Pair(1, 2)] == "kept"


def test_copies_of_every_kind_equal_it() -> None:
    pair = Pair(1, 2)
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert copy.copy(pair) == copy.deepcopy(pair) == pair
    assert dataclasses.replace(pair, high=5) == Pair(1, 5)


def test_one_that_checks_itself_still_does() -> None:
    with pytest.raises(ValueError, match="9 > 2"):
        Pair(9, 2)


@drafted
@dataclass(frozen=True, slots=True)
class Named:
    """One whose fields are called what its maker might call things itself."""

    draft: str
    options: str = "b"
    body: list[str] = field(default_factory=list)


def test_a_field_may_be_called_anything() -> None:
    assert dataclasses.astuple(Named("a")) == ("a", "b", [])


def test_an_heir_is_refused_since_it_would_be_made_one_of_its_parents_kind() -> None:
    with pytest.raises(TypeError, match="inherited"):

        class Heir(Pair):
            """Nobody."""


def test_what_has_more_to_it_than_slots_of_its_own_is_refused() -> None:
    @dataclass(frozen=True)
    class Open:
        name: str

    @dataclass(frozen=True, slots=True)
    class Told:
        name: str
        hint: InitVar[str]

    @dataclass(frozen=True, slots=True)
    class Counted:
        name: str
        count: int = field(init=False, default=0)

    @dataclass(frozen=True, slots=True)
    class Derived(Plain):
        more: int = 0

    @dataclass(frozen=True, slots=True)
    class Mixed:
        name: str
        size: int = field(default=1, kw_only=True)

    @dataclass(frozen=True, slots=True)
    class Veiled:
        name: str
        count: int = field(default=0, compare=False)

    @dataclass(frozen=True, slots=True, eq=False)
    class Single:
        name: str

    @dataclass(frozen=True, slots=True)
    class Hashed:
        name: str

        def __hash__(self) -> int:
            return 1

    @dataclass(frozen=True, slots=True)
    class Shown:
        name: str

        def __repr__(self) -> str:
            return self.name

    @dataclass(slots=True)
    class Soft:
        name: str

    everybody: tuple[type, ...] = (Open, Told, Counted, Derived, Mixed, Veiled, Single, Hashed)
    for kind in (*everybody, Shown, Soft):
        with pytest.raises(TypeError, match=kind.__name__):
            drafted(kind)
