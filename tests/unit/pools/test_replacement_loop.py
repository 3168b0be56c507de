"""Pools with faulty replacements stop replacing, and retry with growing pauses."""

from datetime import datetime, timedelta

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet.launch_breaker import FIRST_PAUSE, LONGEST_PAUSE, LaunchBreaker
from navarch.fleet.replacement_loop import find_replacement_loop
from navarch.testing.worlds import NOW, a_node, a_pool

POOL = a_pool(size=3)
MINUTE = timedelta(minutes=1)


def at(minute: float) -> datetime:
    return NOW + minute * MINUTE


def replacement(number: int, *, registered: float, phase: Phase = Phase.READY) -> Node:
    """Return a replacement that was requested a minute before it registered."""
    node = a_node(f"training-{number}", phase=phase, replaces=NodeId(f"training-{number - 1}"))
    assert node.launch is not None
    return evolve(
        node,
        created_at=at(registered - 1),
        registered_at=at(registered) if phase is Phase.READY else None,
        launch=evolve(node.launch, asked_at=at(registered - 1)),
    )


def faulty(number: int, *, registered: float, after: float = 1) -> Node:
    fault = Condition(
        check="nvlink",
        health=Health.UNHEALTHY,
        reason="18 links down",
        since=at(registered + after),
    )
    node = replacement(number, registered=registered)
    return evolve(node, health=Health.UNHEALTHY, conditions=(fault,))


def replaced(node: Node) -> Node:
    """Return a faulty node that was replaced and is gone."""
    why = Retirement(reason="unhealthy: 18 links down")
    at_last = node.conditions[0].since
    return evolve(node, phase=Phase.GONE, since=at_last, acted_at=at_last, retiring=why)


def loop_of(*nodes: Node, minute: float = 0, **facts: object) -> LaunchBreaker | None:
    return find_replacement_loop(evolve(POOL, **facts), nodes, now=at(minute))  # type: ignore[arg-type]


THREE = [
    replaced(faulty(1, registered=-9)),
    replaced(faulty(2, registered=-6)),
    faulty(3, registered=-3),
]


def test_two_faulty_replacements_in_a_row_do_not_pause_the_pool() -> None:
    assert loop_of(*THREE[:2]) is None


def test_the_third_faulty_replacement_pauses_the_pool_with_a_reason() -> None:
    loop = loop_of(*THREE)
    assert loop is not None
    assert loop.allowance == 0
    assert loop.until == at(-2) + FIRST_PAUSE
    assert loop.reason == (
        "3 replacements in a row fell ill within 30 min of registering, at last training-3: "
        "18 links down; the next is tried at 12:03:00 UTC, or now with "
        "`navarch held release --pool training`"
    )


def test_one_replacement_is_tried_after_the_pause() -> None:
    loop = loop_of(*THREE, minute=4)
    assert loop is not None
    assert loop.allowance == 1


def test_no_replacement_is_tried_while_another_is_on_probation() -> None:
    booting = replacement(4, registered=5, phase=Phase.BOOTING)
    for trial in (booting, replacement(4, registered=5)):
        loop = loop_of(*THREE, trial, minute=20)
        assert loop is not None
        assert loop.allowance == 0
        assert "training-4 is tried next" in loop.reason
        assert loop.until > at(20), "so that the end of the trial is noticed"


def test_each_faulty_try_doubles_the_pause() -> None:
    pauses = []
    nodes = list(THREE)
    for number in range(4, 10):
        loop = loop_of(*nodes, minute=-2)
        assert loop is not None
        begun = max(node.conditions[0].since for node in nodes)
        pauses.append(loop.until - begun)
        asked = (loop.until - NOW) / MINUTE + 1
        nodes.append(replaced(faulty(number, registered=asked + 1)))
    expected = [FIRST_PAUSE * 2**i for i in range(6)]
    assert pauses == [min(each, LONGEST_PAUSE) for each in expected]


def test_a_replacement_that_passes_its_probation_ends_the_pause() -> None:
    well = replacement(4, registered=5)
    assert loop_of(*THREE, well, minute=34) is not None
    assert loop_of(*THREE, well, minute=35) is None


def test_an_older_healthy_node_does_not_end_the_pause() -> None:
    old = evolve(a_node("training-0"), registered_at=at(-600))
    assert loop_of(*THREE, old) is not None


def test_a_fault_after_the_probation_does_not_count() -> None:
    late = [faulty(number, registered=-100, after=31) for number in (1, 2, 3)]
    assert loop_of(*late) is None


def test_the_first_nodes_of_a_pool_are_no_replacements() -> None:
    first = [evolve(node, replaces=None) for node in THREE]
    assert loop_of(*first) is None


def test_replacements_that_fail_together_count_as_one_try() -> None:
    together = [replaced(faulty(number, registered=-6 + number / 10)) for number in range(1, 9)]
    loop = loop_of(*together)
    assert loop is not None
    assert loop.until == together[2].conditions[0].since + FIRST_PAUSE


def test_a_release_by_an_operator_resets_the_count() -> None:
    assert loop_of(*THREE, brake_released_at=at(0)) is None


def test_a_deleted_pool_has_nothing_to_pause() -> None:
    assert loop_of(*THREE, deleted=True) is None


def test_a_check_that_passes_again_ends_the_pause() -> None:
    passes = [evolve(x, health=Health.HEALTHY, conditions=()) for x in THREE if x.counts]
    assert loop_of(*THREE[:2], *passes) is None
