"""Jobs without a pool may run on several: their nodes leave together all the same."""

from datetime import timedelta
from functools import partial

import pytest

from navarch.core.disruption import Disruption, DisruptionBudget
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import NodeId, PoolName
from navarch.core.job import Job
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet.disruption.replacement import plan_replacements
from navarch.fleet.drains import plan_drains
from navarch.fleet.jobs.demand import work_of
from navarch.fleet.jobs.gangs import (
    awaits_other_pools,
    interrupted_jobs,
    nodes_by_gang,
    pools_of_jobs,
)
from navarch.fleet.jobs.job_index import JobIndex
from navarch.fleet.jobs.placement import plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.plan import Drain
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

OLD = Disruption(lifetime_max=timedelta(minutes=30), budgets=(DisruptionBudget(nodes_max=99),))
ALPHA, BETA = (
    a_pool(name, size=2, nodes_max=9, disruption=OLD, boot_deadline=timedelta(minutes=10))
    for name in ("alpha", "beta")
)
GANG = a_job("gang", on=("a", "b"))
A, B = a_node("a", "alpha"), a_node("b", "beta")


def a_fleet(*things: Node | Job) -> Fleet:
    nodes = [each for each in things if isinstance(each, Node)]
    jobs = [each for each in things if isinstance(each, Job)]
    return apply(Fleet(), Change(pools=[ALPHA, BETA], nodes=nodes, jobs=jobs))


def successor(name: str, of: str, pool: str, **facts: object) -> Node:
    return a_node(name, pool, replaces=NodeId(of), **{"created_at": NOW, **facts})  # type: ignore[arg-type]


def jobs_on(fleet: Fleet, *nodes: NodeId) -> list[Job]:
    return JobIndex(fleet).on_any(nodes, fleet.jobs)


def retired(fleet: Fleet) -> list[str]:
    """Return the nodes of the first pool that are retired now."""
    plan = plan_replacements(
        ALPHA,
        list(fleet.in_pool(ALPHA.name).values()),
        for_sale=None,
        gangs=partial(nodes_by_gang, fleet.jobs.values()),
        awaits_others=lambda names: awaits_other_pools(
            fleet, ALPHA.name, jobs_on(fleet, *names), now=NOW
        ),
        now=NOW,
    )
    return [each.node for each in plan.retire]


def test_a_job_without_a_pool_is_placed_on_several_if_none_has_room_for_all_of_it() -> None:
    fleet = a_fleet(A, B, a_job("gang", tasks=2))
    (job,) = plan_jobs(fleet, Scheduling(), now=NOW).change.jobs
    assert set(job.nodes) == {"a", "b"}

    bound = a_fleet(A, B, a_job("gang", tasks=2, pool=PoolName("alpha")))
    assert plan_jobs(bound, Scheduling(), now=NOW).change.empty


def test_a_node_is_retired_once_the_successors_in_other_pools_of_its_job_serve() -> None:
    new_a = successor("new-a", "a", "alpha")
    boots = successor("new-b", "b", "beta", phase=Phase.BOOTING)

    assert retired(a_fleet(A, B, new_a, boots, GANG)) == []
    serves = successor("new-b", "b", "beta")
    assert retired(a_fleet(A, B, new_a, serves, GANG)) == ["a"]


BOOTS = successor("new-b", "b", "beta", phase=Phase.BOOTING)


@pytest.mark.parametrize(
    "others",
    [
        (B,),
        (B, evolve(BOOTS, created_at=NOW - BETA.boot_deadline)),
        (evolve(B, retiring=Retirement(reason="broken")), BOOTS),
        (B, a_node("c", "beta"), successor("new-c", "c", "beta", phase=Phase.BOOTING)),
    ],
    ids=["no successor", "past its boot deadline", "old node leaves", "of a stranger to the job"],
)
def test_a_node_does_not_wait_for_other_pools_without_need(others: tuple[Node, ...]) -> None:
    assert retired(a_fleet(A, *others, successor("new-a", "a", "alpha"), GANG)) == ["a"]


def test_a_node_whose_own_successor_is_past_its_deadline_waits_for_no_other_pool() -> None:
    """Successors in the other pool may fail one after another."""
    late = successor("new-a", "a", "alpha", created_at=NOW - ALPHA.boot_deadline)
    assert retired(a_fleet(A, B, late, BOOTS, GANG)) == ["a"]


def test_a_retiring_node_joins_a_drain_of_its_job_in_another_pool() -> None:
    retirement = Retirement(reason="hot", decided_at=NOW)
    leaves = evolve(A, retiring=retirement)

    def drained(other: Node) -> list[str]:
        fleet = a_fleet(leaves, other, a_node("new", "alpha"), GANG)
        plan = plan_drains(
            ALPHA,
            fleet.in_pool(ALPHA.name).values(),
            drained=(),
            jobs=fleet.jobs.values(),
            interrupted=partial(interrupted_jobs, fleet, fleet.jobs.values()),
            now=NOW,
        )
        return [each.node for each in plan.actions if isinstance(each, Drain)]

    assert drained(B) == []
    assert drained(evolve(B, phase=Phase.DRAINING)) == ["a"]


def test_the_pools_of_a_job_are_those_of_all_its_nodes() -> None:
    fleet = a_fleet(A, B, GANG, a_node("c", "beta"), a_job("other", on=("c",)))
    assert pools_of_jobs(fleet, jobs_on(fleet, A.id)) == {"alpha", "beta"}
    assert pools_of_jobs(fleet, jobs_on(fleet, NodeId("c"))) == {"beta"}
    assert interrupted_jobs(fleet, fleet.jobs.values()) == set()


def test_each_task_of_a_running_job_counts_as_work_of_its_own_pool() -> None:
    fleet = a_fleet(A, B, a_node("c", "beta"), a_job("gang", on=("a", "b", "c")))
    parts = [[work.parts for work in work_of(fleet, pool.name)] for pool in (ALPHA, BETA)]
    assert parts == [[1], [2]]
