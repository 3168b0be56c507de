"""The index of jobs finds what a plan may have to change."""

import pytest

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.job import Job, JobState, Reservation
from navarch.core.node import Node, Phase
from navarch.fleet.jobs.job_index import JobIndex
from navarch.fleet.jobs.swaps import SWAPPED
from navarch.health.learning.stragglers import STRAGGLER
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

SLOW = Condition(
    check=f"{STRAGGLER}/GPU-0",
    health=Health.DEGRADED,
    reason="slow",
    since=NOW,
    facts={"shortfall_pct": "12"},
)
RUNS = a_job("j", on=("n0",))
MOVES = a_job("j", on=("n0",), reservation=Reservation(nodes=(NodeId("n1"),), until=NOW))


def indexed(*records: Node | Job) -> JobIndex:
    nodes = [each for each in records if isinstance(each, Node)]
    jobs = [each for each in records if isinstance(each, Job)]
    return JobIndex(apply(Fleet(), Change(pools=[a_pool()], nodes=nodes, jobs=jobs)))


@pytest.mark.parametrize(
    "records",
    [
        (a_node("n0"), a_job("waits")),
        (a_node("n0", phase=Phase.DRAINING), RUNS),
        (a_node("n0", phase=Phase.GONE), RUNS),
        (RUNS,),
        (a_node("n0", conditions=(SLOW,)), RUNS),
        (a_node("n0"), a_node("n1", cordoned=f"{SWAPPED}slow"), RUNS),
        (a_node("n0"), a_node("n1"), MOVES),
    ],
    ids=["waits", "drains", "gone", "forgotten", "straggler", "swapped", "reserving"],
)
def test_a_fleet_with_something_to_plan_is_not_quiet(records: tuple[Node | Job, ...]) -> None:
    assert not indexed(*records).is_quiet


def test_a_fleet_is_quiet_while_every_job_runs_or_is_over() -> None:
    index = indexed(
        a_node("n0"),
        a_node("n1", phase=Phase.GONE),
        a_node("n2", cordoned="by hand"),
        RUNS,
        a_job("over", state=JobState.FINISHED),
    )

    assert index.is_quiet
    assert index.is_complete
    assert not index.waiting
    assert index.on_any([NodeId("n0"), NodeId("n1")], {RUNS.name: RUNS}) == [RUNS]


def test_nodes_are_reserved_until_the_reservation_ends() -> None:
    nodes = {NodeId(name): a_node(name) for name in ("n0", "n1")}
    index = indexed(*nodes.values(), MOVES)
    assert set(index.reserved) == {"n1"}

    index.note_job(MOVES, RUNS, nodes)
    assert index.is_quiet
    assert not index.reserved


def test_a_node_of_a_job_is_reserved_once_the_job_has_left_it() -> None:
    nodes = {NodeId(name): a_node(name) for name in ("n0", "n1", "n2")}
    both = Reservation(nodes=(NodeId("n1"), NodeId("n2")), until=NOW)
    moves = a_job("j", on=("n0", "n1"), reservation=both)
    index = indexed(*nodes.values(), moves)
    assert set(index.reserved) == {"n2"}

    index.note_job(moves, moves.to(JobState.WAITING, at=NOW, reason="n0 is drained"), nodes)
    assert set(index.reserved) == {"n1", "n2"}
