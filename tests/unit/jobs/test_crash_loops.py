"""Crash loops: when repeated deaths of programs are evidence against a node."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import CRASH_LOOP, Condition, Health
from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.job import DEATHS_KEPT, Job, JobDeath
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.drains import notice_due
from navarch.fleet.jobs.crash_loops import (
    DEATHS_MIN,
    RUNS_WELL_AFTER,
    TRIAL_AFTER,
    find_dying_node,
    plan_crash_loops,
)
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

MINUTE = timedelta(minutes=1)
NODES = 12


def died(*nodes: str, beside: int = 0, every: timedelta = 10 * MINUTE) -> tuple[JobDeath, ...]:
    """Return deaths on these nodes in order, the last one minute ago."""
    last = NOW - MINUTE
    times = [last - every * back for back in reversed(range(len(nodes)))]
    return tuple(
        JobDeath(at=at, node=NodeId(node), beside=beside)
        for at, node in zip(times, nodes, strict=True)
    )


def a_fleet(*jobs: Job, looping: Sequence[str] = (), since: timedelta = MINUTE) -> Fleet:
    """Return a fleet of nodes that each run a job without trouble, except for the first two."""
    condition = Condition(
        check=CRASH_LOOP, health=Health.DEGRADED, reason="loops", since=NOW - since
    )
    names = [f"n{number}" for number in range(NODES)]
    nodes = [
        a_node(
            name,
            booted_at=NOW - timedelta(days=1),
            conditions=(condition,) if name in looping else (),
        )
        for name in names
    ]
    calm = [a_job(f"calm-{name}", on=(name,)) for name in names[2:]]
    pool = a_pool(size=NODES)
    return apply(Fleet(), Change(pools=[pool], nodes=nodes, jobs=[*calm, *jobs]))


def begun(fleet: Fleet) -> list[str]:
    found = plan_crash_loops(fleet, now=NOW).results
    return [name for name, result in found.items() if result.health is Health.DEGRADED]


def ended(fleet: Fleet) -> list[str]:
    found = plan_crash_loops(fleet, now=NOW).results
    return [name for name, result in found.items() if result.health is Health.HEALTHY]


def test_a_node_on_which_a_job_dies_three_times_an_hour_is_in_a_crash_loop() -> None:
    assert begun(a_fleet(a_job("j", deaths=died("n0", "n0")))) == []

    fleet = a_fleet(a_job("j", deaths=died("n0", "n0", "n0")))

    (result,) = plan_crash_loops(fleet, now=NOW).results.values()
    assert begun(fleet) == ["n0"]
    assert result.reason.startswith(
        "programs of jobs died here 3 times within 1:00:00, and not elsewhere: j (3)"
    )


def test_deaths_that_are_far_apart_are_no_crash_loop() -> None:
    assert begun(a_fleet(a_job("j", deaths=died("n0", "n0", "n0", every=31 * MINUTE)))) == []


@pytest.mark.parametrize("elsewhere", [("n1", "n1"), ("n1", "n2"), ("n1", "n1", "n1")])
def test_a_job_that_dies_everywhere_is_no_evidence_against_nodes(
    elsewhere: tuple[str, ...],
) -> None:
    deaths = died("n0", "n0", "n0", *elsewhere, every=5 * MINUTE)
    assert begun(a_fleet(a_job("bad", deaths=deaths))) == []


def test_jobs_that_each_died_once_on_a_node_blame_it_only_once_they_run_well_elsewhere() -> None:
    def jobs(since: timedelta) -> list[Job]:
        return [
            a_job(f"j{number}", on=(f"n{number}",), since=NOW - since, deaths=died("n0"))
            for number in range(3, 3 + DEATHS_MIN)
        ]

    broken_array = [a_job(f"j{number}", deaths=died("n0")) for number in range(10)]
    assert begun(a_fleet(*broken_array)) == []
    assert begun(a_fleet(*jobs(RUNS_WELL_AFTER - MINUTE))) == []
    assert plan_crash_loops(a_fleet(*jobs(RUNS_WELL_AFTER - MINUTE)), now=NOW).wake_at == (
        NOW + MINUTE
    )
    assert begun(a_fleet(*jobs(RUNS_WELL_AFTER))) == ["n0"]


def test_the_other_nodes_of_a_gang_show_that_one_of_them_is_at_fault() -> None:
    gang = a_job("gang", tasks=4, deaths=died("n0", "n0", "n0", beside=3))
    alone = a_job("alone", deaths=died("n0", "n0", "n0"))
    for job, expected in ((gang, ["n0"]), (alone, [])):
        fleet = apply(Fleet(), Change(pools=[a_pool()], nodes=[a_node("n0")], jobs=[job]))
        assert begun(fleet) == expected, "nothing else runs to compare with"


def test_programs_that_die_on_many_nodes_at_once_have_a_common_cause() -> None:
    jobs = [
        a_job(f"j{number}", deaths=died(*[f"n{number}"] * DEATHS_MIN)) for number in range(NODES)
    ]
    assert begun(a_fleet(*jobs)) == []
    assert ended(a_fleet(*jobs, looping=["n0"])) == ["n0"], "the first of them had been blamed"


def test_at_most_one_node_in_twenty_is_kept_from_work_for_crash_loops() -> None:
    jobs = [a_job(f"j{number}", deaths=died(*[f"n{number}"] * DEATHS_MIN)) for number in range(2)]
    assert begun(a_fleet(*jobs)) == ["n0"]
    assert begun(a_fleet(*jobs, looping=["n0"])) == []


def test_a_crash_loop_outlasts_its_window_and_the_jobs() -> None:
    later = {"since": timedelta(hours=3), "looping": ["n0"]}
    deaths = died("n0", "n0", "n0")
    old = tuple(evolve(death, at=death.at - timedelta(hours=3)) for death in deaths)
    fleet = a_fleet(a_job("j", on=("n3",), deaths=old), **later)  # type: ignore[arg-type]

    assert (begun(fleet), ended(fleet)) == ([], [])
    assert plan_crash_loops(fleet, now=NOW).wake_at == NOW + TRIAL_AFTER - timedelta(hours=3)


def test_a_crash_loop_ends_when_the_job_dies_elsewhere_as_well() -> None:
    deaths = died("n0", "n0", "n0", "n1", "n1")
    assert ended(a_fleet(a_job("j", deaths=deaths), looping=["n0"])) == ["n0"]
    assert ended(a_fleet(a_job("j", deaths=deaths[:4]), looping=["n0"])) == []


def test_a_crash_loop_is_lifted_for_a_trial() -> None:
    deaths = tuple(evolve(each, at=each.at - TRIAL_AFTER) for each in died("n0", "n0", "n0"))
    assert ended(a_fleet(a_job("j", deaths=deaths), looping=["n0"], since=TRIAL_AFTER)) == ["n0"]


@pytest.mark.parametrize("vouched", [True, False])
def test_a_reboot_ends_a_crash_loop_once_the_boot_check_has_passed(vouched: bool) -> None:
    fleet = a_fleet(a_job("j", deaths=died("n0", "n0", "n0")), looping=["n0"], since=5 * MINUTE)
    booted = evolve(
        fleet.nodes[NodeId("n0")],
        booted_at=NOW - MINUTE / 2,
        boot_id="b2",
        vouched_boot="b2" if vouched else "b1",
    )
    after = apply(fleet, Change(nodes=[booted]))
    assert ended(after) == (["n0"] if vouched else [])
    cleared = apply(after, Change(nodes=[evolve(booted, conditions=())]))
    assert begun(cleared) == [], "deaths of the earlier boot are no evidence about this one"


def test_deaths_before_the_override_of_an_operator_are_no_evidence() -> None:
    fleet = a_fleet(a_job("j", deaths=died("n0", "n0", "n0")))
    cleared = evolve(fleet.nodes[NodeId("n0")], overridden_at=NOW - MINUTE / 2)
    assert begun(apply(fleet, Change(nodes=[cleared]))) == []


def test_no_work_starts_on_a_node_in_a_crash_loop_or_with_a_fatal_fault() -> None:
    loop = Condition(check=CRASH_LOOP, health=Health.DEGRADED, reason="x", since=NOW)
    fatal = Condition(check="xid/79", health=Health.DEGRADED, reason="x", since=NOW, fatal=True)
    for condition, notice in ((loop, "cordoned"), (fatal, None)):
        node = a_node("n0", conditions=(condition,), health=Health.DEGRADED)
        assert not node.serving
        assert notice_due(node) == notice, "only remediation closes a node to other schedulers"
    assert a_node("n0", conditions=(evolve(fatal, fatal=False),)).serving


def incident(node: str, *, after: timedelta) -> Incident:
    at = a_job("j").since + after
    return Incident(
        id=IncidentId(f"i-{node}"),
        kind=IncidentKind.APPLICATION,
        node=NodeId(node),
        opened_at=at,
        last_at=at,
        title="XID 94",
        check="xid/94",
        code="94",
    )


def test_the_node_of_a_death_is_the_only_one_or_the_one_with_a_new_fault() -> None:
    gang, single = a_job("gang", on=("n0", "n1")), a_job("single", on=("n0",))
    fleet = a_fleet()

    def found(job: Job, *incidents: Incident, fleet: Fleet = fleet) -> str | None:
        return find_dying_node(apply(fleet, Change(incidents=incidents)), job)

    assert (found(single), found(gang)) == ("n0", None)
    assert found(gang, incident("n1", after=MINUTE)) == "n1"
    assert found(gang, incident("n1", after=-MINUTE)) is None, "it was there before"
    both = (incident("n0", after=MINUTE), incident("n1", after=MINUTE))
    assert found(gang, *both) is None
    leaving: Node = evolve(fleet.nodes[NodeId("n0")], phase=Phase.DRAINING)
    assert found(single, fleet=apply(fleet, Change(nodes=[leaving]))) is None


def test_a_job_remembers_its_latest_deaths() -> None:
    job = a_job("j", on=("n0", "n1"))
    for number in range(DEATHS_KEPT + 5):
        job = job.died_on(NodeId("n1"), at=NOW + number * MINUTE)
    assert len(job.deaths) == DEATHS_KEPT
    assert job.deaths[-1] == JobDeath(
        at=NOW + (DEATHS_KEPT + 4) * MINUTE, node=NodeId("n1"), beside=1
    )
