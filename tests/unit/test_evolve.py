"""A changed copy is what the standard library would have made of it."""

from dataclasses import dataclass

import msgspec
import pytest

from navarch.core.health import Health
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.testing.worlds import a_node


def test_a_copy_differs_in_what_was_changed_and_in_nothing_else() -> None:
    node = a_node("training-1")

    changed = evolve(node, phase=Phase.DRAINING, cordoned="hot")

    assert changed == evolve(node, phase=Phase.DRAINING, cordoned="hot")
    assert changed != node


def test_it_does_not_matter_in_which_order_changes_are_named() -> None:
    node = a_node("training-1")

    one = evolve(node, attempts=3, cordoned="hot", health=Health.DEGRADED)
    other = evolve(node, health=Health.DEGRADED, cordoned="hot", attempts=3)

    assert one == other == evolve(node, attempts=3, cordoned="hot", health=Health.DEGRADED)
    assert evolve(node) == node


def test_what_it_was_made_from_stays_as_it_was() -> None:
    node = a_node("training-1")

    evolve(node, health=Health.UNHEALTHY)

    assert node == a_node("training-1")


def test_a_copy_is_as_frozen_as_the_record() -> None:
    copy = evolve(a_node("training-1"), attempts=3)

    with pytest.raises(AttributeError):
        copy.attempts = 4  # type: ignore[misc]


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises((AttributeError, TypeError)):
        evolve(a_node("training-1"), colour="red")  # type: ignore[call-arg]


class Checked(msgspec.Struct, frozen=True):
    """A record that looks at what it is given."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"{self.low} > {self.high}")


def test_a_record_that_checks_itself_checks_its_copies() -> None:
    with pytest.raises(ValueError, match="9 > 2"):
        evolve(Checked(1, 2), low=9)


@dataclass(frozen=True, slots=True)
class Plain:
    """A record that is no more than a dataclass."""

    name: str


def test_a_record_that_is_not_a_struct_is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        evolve(Plain("a"), name="b")
