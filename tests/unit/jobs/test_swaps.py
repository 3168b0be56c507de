"""Swaps: which stragglers make way for an idle node, and when."""

from datetime import timedelta

import pytest

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.job import Job
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.jobs.placement import plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.jobs.swaps import PLACED_FOR_MIN, SAVED_WITHIN, SWAPPED, plan_swaps
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

LONG_AGO = NOW - PLACED_FOR_MIN


def a_straggler(name: str, shortfall: str = "12.5", **facts: object) -> Node:
    condition = Condition(
        check="straggler/GPU-5",
        health=Health.DEGRADED,
        reason="GPU 5 is at 1400 MHz",
        since=NOW,
        facts={"shortfall_pct": shortfall},
    )
    return a_node(name, conditions=(condition,), health=Health.DEGRADED, gpus=8, **facts)  # type: ignore[arg-type]


def a_fleet(*things: Node | Job) -> Fleet:
    return apply(
        Fleet(),
        Change(
            pools=[a_pool(), a_pool("other")],
            nodes=[each for each in things if isinstance(each, Node)],
            jobs=[each for each in things if isinstance(each, Job)],
        ),
    )


def idle(name: str, pool: str = "training", **facts: object) -> Node:
    return a_node(name, pool, gpus=8, **facts)  # type: ignore[arg-type]


def out(*things: Node | Job) -> list[str]:
    return [node.id for node in plan_swaps(a_fleet(*things), now=NOW).change.nodes]


GANG = a_job("gang", on=("a", "b"), since=LONG_AGO)


def test_a_straggler_drains_when_an_idle_node_can_take_its_place() -> None:
    fleet = a_fleet(a_straggler("a"), idle("b"), idle("spare"), GANG)

    change = plan_swaps(fleet, now=NOW).change

    (node,) = change.nodes
    event = change.events[0]
    assert (node.id, node.phase, node.acted_at) == ("a", Phase.DRAINING, NOW)
    assert node.cordoned == event.reason
    assert event.reason == (SWAPPED + "GPU 5 is at 1400 MHz; job gang can use spare instead")
    assert event.because == ("job/gang", "node/spare")


@pytest.mark.parametrize(
    "spare",
    [
        None,
        idle("spare", cordoned="by hand"),
        idle("spare", "other"),
        evolve(idle("spare"), gpus=4),
        a_straggler("spare"),
    ],
    ids=["none", "cordoned", "of another pool", "smaller", "slow itself"],
)
def test_a_job_stays_on_a_straggler_without_a_sound_idle_node(spare: Node | None) -> None:
    assert out(a_straggler("a"), idle("b"), GANG, *([spare] if spare else [])) == []


def test_an_idle_node_is_no_spare_if_a_job_waits_or_it_is_being_replaced() -> None:
    nodes = (a_straggler("a"), idle("b"), idle("spare"))
    assert out(*nodes, GANG, a_job("waits")) == []
    assert out(*nodes, GANG, a_job("holds", on=("spare",))) == []
    successor = idle("new", phase=Phase.BOOTING, replaces=NodeId("spare"))
    assert out(*nodes, GANG, successor) == []


def test_a_straggler_with_parts_of_several_jobs_interrupts_none_of_them() -> None:
    small = a_job("small", on=("a",), gpus=1)
    assert out(a_straggler("a"), idle("b"), idle("spare"), evolve(GANG, gpus=4), small) == []


def test_a_job_is_not_moved_again_soon_after_it_was_placed() -> None:
    young = evolve(GANG, since=NOW - timedelta(minutes=10))
    fleet = a_fleet(a_straggler("a"), idle("b"), idle("spare"), young)

    plan = plan_jobs(fleet, Scheduling(), now=NOW)

    assert plan.change.empty
    assert plan.wake_at == young.since + PLACED_FOR_MIN


@pytest.mark.parametrize(
    ("saved", "preemptible", "moves"),
    [
        (None, False, True),
        (None, True, False),
        (NOW - SAVED_WITHIN, True, True),
        (NOW - 2 * SAVED_WITHIN, True, False),
        (NOW - 2 * SAVED_WITHIN, False, False),
        (LONG_AGO - SAVED_WITHIN, True, False),
    ],
)
def test_a_job_moves_right_after_it_has_saved_its_work(
    saved: object, preemptible: bool, moves: bool
) -> None:
    job = evolve(GANG, checkpointed_at=saved, preemptible=preemptible)  # type: ignore[arg-type]
    assert out(a_straggler("a"), idle("b"), idle("spare"), job) == (["a"] if moves else [])


def test_one_node_in_twenty_is_swapped_out_at_most_the_slowest_first() -> None:
    nodes = (a_straggler("a", "6.0"), a_straggler("b", "30.0"), idle("s1"), idle("s2"))
    assert out(*nodes, GANG) == ["b"]
    before = a_straggler("c", cordoned=SWAPPED + "it was slow")
    assert out(*nodes, before, GANG) == []


def test_a_node_that_was_swapped_out_stays_cordoned_once_its_job_has_left() -> None:
    draining = a_straggler("a", phase=Phase.DRAINING, cordoned=SWAPPED + "it was slow")
    assert out(draining, idle("b"), GANG) == [], "the job is still there"

    plan = plan_jobs(a_fleet(draining, idle("b"), a_job("gang", tasks=2)), Scheduling(), now=NOW)

    (node,) = plan.change.nodes
    assert (node.phase, node.cordoned) == (Phase.READY, draining.cordoned)
    assert not node.serving
