"""Which nodes count against a budget, in which domains, and for how long."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from navarch.core.disruption import Domain
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.node import DRIVER, Node, Phase, Retirement, Trait
from navarch.core.recovery import Recovery, RecoveryState, RecoveryStep
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.testing.worlds import NOW, a_node

HOUR = timedelta(hours=1)
LONG_AGO = NOW - timedelta(days=7)


def counted(nodes: Iterable[Node], recoveries: Iterable[Recovery] = ()) -> list[NodeId]:
    """Return the nodes with an action in the last hour, or with an outstanding one."""
    return [*DomainStats(nodes, recoveries).acted_since(NOW - HOUR, lambda _: True)]


def retired(name: str, *, surplus: bool = False, replaces: str | None = None) -> Node:
    return a_node(
        name,
        phase=Phase.GONE,
        retiring=Retirement(reason="broken", surplus=surplus),
        acted_at=LONG_AGO,
        replaces=None if replaces is None else NodeId(replaces),
    )


def successor(name: str, of: str, phase: Phase = Phase.READY) -> Node:
    return a_node(name, phase=phase, replaces=NodeId(of))


@contextmanager
def time_limit(*, seconds: int) -> Iterator[None]:
    """Raise TimeoutError if the body runs longer than `seconds` of real time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_an_action_counts_for_the_driver_that_the_node_had_then() -> None:
    trait = Trait(value="550", since=LONG_AGO)
    for value, minutes in (("570", 20), ("580", 10)):
        trait = trait.followed_by(value, at=NOW - timedelta(minutes=minutes))
    node = a_node("training-0", acted_at=NOW - timedelta(minutes=30), traits={DRIVER: trait})
    later = a_node("training-1", acted_at=NOW - timedelta(minutes=15), traits={DRIVER: trait})

    acted = DomainStats([node, later]).acted_since(NOW - HOUR, lambda _: True)

    assert [dict(places)[Domain.DRIVER] for places in acted.values()] == ["550", "570"]


def test_a_replacement_counts_until_the_successor_serves() -> None:
    old = retired("training-0")

    assert counted([old]) == [old.id]
    assert counted([old, successor("training-1", "training-0", Phase.BOOTING)]) == [old.id]
    assert counted([old, successor("training-1", "training-0")]) == []


def test_a_replacement_counts_until_the_successor_of_its_successor_serves() -> None:
    chain = [retired("training-0"), retired("training-1", replaces="training-0")]

    assert counted(chain) == ["training-0", "training-1"]
    assert counted([*chain, successor("training-2", "training-1")]) == []


@pytest.mark.parametrize("first", [0, 1])
def test_either_of_two_successors_ends_a_replacement(first: int) -> None:
    old = retired("training-0")
    heirs = [
        successor("training-1", "training-0"),
        successor("training-2", "training-0", Phase.BOOTING),
    ]

    assert counted([old, heirs[first], heirs[1 - first]]) == []


def test_a_successor_that_was_forgotten_does_not_count_as_serving() -> None:
    old, new = retired("training-0"), successor("training-1", "training-0")
    stats = DomainStats([old, new])

    stats.drop(new.id)

    assert [*stats.acted_since(NOW - HOUR, lambda _: True)] == [old.id]


def test_nodes_that_replace_each_other_count_without_end() -> None:
    """The store should never hold such nodes; a budget must not hang on them."""
    circle = [
        retired("training-0", replaces="training-1"),
        retired("training-1", replaces="training-0"),
    ]

    with time_limit(seconds=10):
        assert counted(circle) == ["training-0", "training-1"]


def test_a_surplus_node_needs_no_successor() -> None:
    assert counted([retired("training-0", surplus=True)]) == []


def test_a_repair_counts_until_it_is_handed_to_an_operator() -> None:
    repaired = RecoveryId("training-0-r")
    node = a_node("training-0", acted_at=LONG_AGO, recovery=repaired)

    def recovery(state: RecoveryState) -> Recovery:
        return Recovery(
            id=repaired,
            node=node.id,
            check="xid/79/GPU-0",
            cause="broken",
            boot_id="b",
            step=RecoveryStep.REBOOT,
            state=state,
            since=LONG_AGO,
            begun_at=LONG_AGO,
        )

    assert counted([node], [recovery(RecoveryState.WAITING)]) == [node.id]
    assert counted([node], [recovery(RecoveryState.TICKET)]) == []
