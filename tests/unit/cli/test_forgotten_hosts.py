"""Hosts that registered by themselves are forgotten by hand, or once they are silent for long."""

from datetime import timedelta
from typing import cast

import pytest
from cli_fleet import FleetCli, make_cli, running_fleet

from navarch.app.control_plane import Plane
from navarch.control.housekeeping import KEEP, RETENTION_CHECK_EVERY
from navarch.core.errors import NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import JobName, NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.job import JobState
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.host_retention import KEEP_HOSTS, forget_silent_hosts
from navarch.ports.agents import Registration
from navarch.ports.api import FleetApi, JobRequest
from navarch.sim.kernel.loop import EPOCH
from navarch.sim.world.hosts import TIMING
from navarch.testing.worlds import NOW, a_node

HOST = NodeId("rack-7")
GPUS = Inventory(gpus=tuple(Gpu(index=i, uuid=f"GPU-{i}") for i in range(8)))
WEEK = timedelta(days=7)


def silence(age: timedelta) -> tuple[Condition, ...]:
    return (Condition(check=HEARTBEAT, health=Health.UNHEALTHY, reason="", since=NOW - age),)


def a_host(*conditions: Condition) -> Node:
    return evolve(a_node("rack-7", conditions=conditions), pool=None, launch=None)


def test_a_host_is_forgotten_once_it_was_silent_for_the_retention() -> None:
    [(node, event)] = forget_silent_hosts([a_host(*silence(WEEK))], WEEK, now=NOW)
    assert node.phase is Phase.GONE
    assert event.kind == "node.forgotten"
    assert "server.forget_hosts_after" in event.reason
    barely = a_host(*silence(WEEK - timedelta(seconds=1)))
    assert forget_silent_hosts([barely], WEEK, now=NOW) == []


def test_only_silence_ends_the_stay_of_a_host() -> None:
    broken = Condition(
        check="xid", health=Health.UNHEALTHY, reason="XID 79", since=NOW - 9 * WEEK, fatal=True
    )
    assert forget_silent_hosts([a_host(broken)], WEEK, now=NOW) == []


def test_a_machine_that_navarch_bought_is_never_forgotten() -> None:
    bought = a_node("training-0", conditions=silence(9 * WEEK))
    assert forget_silent_hosts([bought], WEEK, now=NOW) == []


def test_without_a_retention_no_host_is_forgotten() -> None:
    assert forget_silent_hosts([a_host(*silence(99 * WEEK))], None, now=NOW) == []


def plane(fleet: FleetCli) -> Plane:
    control = fleet.world.control
    assert isinstance(control, Plane)
    return control


def register(fleet: FleetCli, boot: str = "boot-1") -> None:
    registration = Registration(node=HOST, boot_id=boot, inventory=GPUS)
    fleet.runner.run(plane(fleet).agents.register(registration))


async def beat(fleet: FleetCli) -> None:
    plane(fleet).agents.heartbeat(HOST)


def forget(fleet: FleetCli, reason: str = "") -> Node:
    service = plane(fleet).adoption
    fleet.runner.run(service.forget(HOST, reason=reason))
    return plane(fleet).store.fleet().nodes[HOST]


def kinds(fleet: FleetCli) -> list[str]:
    events = fleet.runner.run(plane(fleet).store.events(about=about("node", HOST), limit=100))
    return [entry.event.kind for entry in events]


def fall_silent(fleet: FleetCli) -> None:
    fleet.wait(TIMING.silence.total_seconds() + 5)


def test_a_node_that_reports_is_not_forgotten() -> None:
    with running_fleet() as fleet:
        register(fleet)
        with pytest.raises(NotPossibleError, match="still reports; stop its agent"):
            forget(fleet)
        assert plane(fleet).store.fleet().nodes[HOST].phase is Phase.READY


def test_a_bought_node_is_terminated_instead_of_forgotten() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name training")
        fleet.wait(300)
        service = plane(fleet).adoption
        with pytest.raises(NotPossibleError, match="navarch terminate training-0"):
            fleet.runner.run(service.forget(NodeId("training-0"), reason=""))


def test_forgetting_closes_incidents_and_requeues_jobs() -> None:
    with running_fleet() as fleet:
        register(fleet)
        control = plane(fleet)
        fault = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="GPU 0 is lost")
        fleet.runner.run(control.jobs.submit_job(JobRequest(name=JobName("train"), gpus=8)))
        fleet.wait(60)
        placed = control.store.fleet().jobs[JobName("train")]
        assert (placed.state, placed.nodes) == (JobState.PLACED, (HOST,))
        fleet.runner.run(control.agents.report_health(HOST, HealthReport(results=(fault,))))
        assert [x for x in control.store.fleet().incidents.values() if x.is_open]
        fall_silent(fleet)
        gone = forget(fleet, "decommissioned")
        assert gone.phase is Phase.GONE
        fleet.wait(60)
        assert not [x for x in control.store.fleet().incidents.values() if x.is_open]
        assert control.store.fleet().jobs[JobName("train")].state is JobState.WAITING
        last = fleet.runner.run(control.store.events(about=about("node", HOST), limit=100))[-1]
        assert last.event.reason == "forgotten by hand: decommissioned"
        assert last.event.facts["by"] == "hand"


def test_a_forgotten_node_that_reports_again_registers_anew() -> None:
    with running_fleet() as fleet:
        register(fleet)
        agents = plane(fleet).agents
        fault = CheckResult(
            check="xid", health=Health.UNHEALTHY, reason="XID 79", fatal=True, lasting=True
        )
        fleet.runner.run(agents.report_health(HOST, HealthReport(results=(fault,))))
        fall_silent(fleet)
        forget(fleet)
        with pytest.raises(NotFoundError):
            fleet.runner.run(beat(fleet))
        with pytest.raises(NotFoundError):
            fleet.runner.run(agents.report_health(HOST, HealthReport(results=())))
        register(fleet, "boot-2")
        again = plane(fleet).store.fleet().nodes[HOST]
        assert (again.phase, again.conditions, again.boot_id) == (Phase.READY, (), "boot-2")
        fleet.runner.run(beat(fleet))
        # The record of the former node is not deleted from under the new one.
        fleet.wait((KEEP + timedelta(hours=1)).total_seconds())
        assert HOST in plane(fleet).store.fleet().nodes


def test_a_running_control_plane_forgets_silent_hosts_and_explains_it() -> None:
    with running_fleet() as fleet:
        register(fleet)
        fall_silent(fleet)
        store = plane(fleet).store
        node = store.fleet().nodes[HOST]
        long_ago = tuple(evolve(x, since=x.since - KEEP_HOSTS) for x in node.conditions)
        event = Event(at=EPOCH, about=about("node", HOST), kind="node.health", reason="")
        change = Change(nodes=[evolve(node, conditions=long_ago)], events=[event])
        fleet.runner.run(store.commit(change, based_on=store.fleet().revision))
        fleet.wait(RETENTION_CHECK_EVERY.total_seconds() + 60)
        assert store.fleet().nodes[HOST].gone
        assert kinds(fleet)[-1] == "node.forgotten"
        shown = fleet.run(f"why {HOST}")
        assert "has not reported since" in shown.output
        assert "server.forget_hosts_after" in shown.output


def test_the_command_line_forgets_nodes() -> None:
    with running_fleet() as fleet:
        register(fleet)
        fall_silent(fleet)
        service = plane(fleet).adoption
        cli = make_cli(cast("FleetApi", service), runner=fleet.runner)
        refused = cli.run("node forget rack-8 rack-7")
        assert refused.exit_code != 0
        assert "node not found: rack-8" in refused.output
        assert "Node rack-7 forgotten" in refused.output
        assert plane(fleet).store.fleet().nodes[HOST].gone
