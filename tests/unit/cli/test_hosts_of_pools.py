"""Self-registered nodes count towards the size of the pool that their agents name."""

import itertools
import json
from typing import Any

from cli_fleet import FleetCli, running_fleet

from navarch.app.control_plane import Plane
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import JobName, NodeId, PoolName, Token
from navarch.core.instance import Gpu, Inventory
from navarch.core.job import JobState
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.planner import plan_pool
from navarch.fleet.pool_index import SteadyNodes
from navarch.ports.agents import Registration
from navarch.ports.api import JobRequest
from navarch.testing.worlds import NOW, a_node, a_pool

TRAINING = PoolName("training")
GPUS = tuple(Gpu(index=i, uuid=f"GPU-{i}") for i in range(8))


def a_host(name: str, pool: str = "training", phase: Phase = Phase.READY) -> Node:
    return evolve(a_node(name, labels={"pool": pool}, phase=phase), pool=None, launch=None)


def a_fleet(*nodes: Node) -> Fleet:
    return apply(Fleet(), Change(pools=[a_pool(size=2)], nodes=nodes))


def names(fleet: Fleet) -> list[NodeId]:
    return [node.id for node in fleet.hosts_of(TRAINING)]


def test_a_host_serves_the_pool_that_its_agent_names_until_it_is_gone() -> None:
    fleet = a_fleet(a_host("rack-1"), a_host("rack-2", "other"), a_node("training-0"))
    assert names(fleet) == ["rack-1"]
    fleet = apply(fleet, Change(nodes=[a_host("rack-1", "other")]))
    assert names(fleet) == []
    fleet = apply(fleet, Change(nodes=[a_host("rack-1")]))
    assert names(fleet) == ["rack-1"]
    fleet = apply(fleet, Change(nodes=[a_host("rack-1", phase=Phase.GONE)]))
    assert names(fleet) == []
    assert names(apply(fleet, Change(forget_nodes=[NodeId("rack-1")]))) == []


def test_a_deleted_or_unknown_pool_has_no_hosts() -> None:
    fleet = a_fleet(a_host("rack-1"))
    assert names(apply(fleet, Change(pools=[a_pool(size=0, deleted=True)]))) == []
    assert fleet.hosts_of(PoolName("other")) == ()


def plane(fleet: FleetCli) -> Plane:
    control = fleet.world.control
    assert isinstance(control, Plane)
    return control


def register(fleet: FleetCli, *hosts: str, pool: str = "training") -> None:
    for name in hosts:
        inventory = Inventory(gpus=GPUS, labels={"pool": pool})
        registration = Registration(node=NodeId(name), boot_id="boot-1", inventory=inventory)
        fleet.runner.run(plane(fleet).agents.register(registration))


def shown(fleet: FleetCli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.run("pool get training -o json").output)
    return found


def scaled(fleet: FleetCli, nodes: int) -> int:
    """Scale the pool, and return how many machines it has at the cloud."""
    assert fleet.run(f"pool scale training {nodes}").exit_code == 0
    fleet.wait(300)
    return len(fleet.world.cloud.alive())


CREATE = "pool create training --provider sim --type h100-8x --max 4"


def test_machines_are_bought_only_for_what_the_hosts_do_not_cover() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        register(fleet, "rack-1", "rack-2")
        assert scaled(fleet, 2) == 0
        assert scaled(fleet, 3) == 1
        # Two hosts and two machines fill the pool.
        assert scaled(fleet, 4) == 2


def test_hosts_are_shown_as_nodes_of_their_pool() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        register(fleet, "rack-1", "rack-2")
        fleet.run("pool scale training 2")
        pool = shown(fleet)
        assert (pool["size"], pool["serving"], pool["hosts"]) == (2, 2, 2)
        assert "2 of them, never terminated" in fleet.run("pool get training").output
        assert "Every pool is complete." in fleet.run("status").output


def test_a_host_that_registers_later_stops_purchases_and_terminates_nothing() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        assert scaled(fleet, 2) == 2
        register(fleet, "rack-1", "rack-2", "rack-3")
        fleet.wait(3600)
        assert len(fleet.world.cloud.alive()) == 2
        assert len(plane(fleet).store.fleet().hosts_of(TRAINING)) == 3


def test_a_silent_host_counts_until_it_is_forgotten() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        register(fleet, "rack-1", "rack-2")
        assert scaled(fleet, 2) == 0
        fleet.wait(3600)
        assert len(fleet.world.cloud.alive()) == 0
        service = plane(fleet).adoption
        fleet.runner.run(service.forget(NodeId("rack-1"), reason="sold"))
        fleet.wait(300)
        assert len(fleet.world.cloud.alive()) == 1


def test_a_pool_with_hosts_can_be_deleted_and_its_hosts_stay() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        register(fleet, "rack-1")
        assert scaled(fleet, 2) == 1
        assert fleet.run("pool delete training --yes").exit_code == 0
        fleet.wait(900)
        assert not fleet.world.cloud.alive()
        assert "pool not found" in fleet.run("pool get training").output
        assert plane(fleet).store.fleet().nodes[NodeId("rack-1")].phase is Phase.READY


def test_jobs_of_the_pool_run_on_its_hosts() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        register(fleet, "rack-1")
        register(fleet, "rack-2", pool="other")
        job = JobRequest(name=JobName("train"), gpus=8, pool=TRAINING)
        fleet.runner.run(plane(fleet).jobs.submit_job(job))
        fleet.wait(30)
        placed = plane(fleet).store.fleet().jobs[JobName("train")]
        assert (placed.state, placed.nodes) == (JobState.PLACED, (NodeId("rack-1"),))


def test_a_gang_is_bought_only_for_what_the_hosts_do_not_cover() -> None:
    nodes = SteadyNodes(nodes=2)
    pool = a_pool(size=4, nodes_max=8, gang=2)
    tokens = (Token(f"t-{i}") for i in itertools.count())
    found = plan_pool(pool, (), now=NOW, new_tokens=tokens, steady=nodes)
    assert len(found.actions) == 2
