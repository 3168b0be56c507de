"""Running machines are taken into a pool and given up, and none is bought twice or terminated."""

import asyncio
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from cli_fleet import FleetCli, make_cli, running_fleet
from click.testing import Result

from navarch.app.control_plane import Plane
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import Node, Phase
from navarch.core.ownership import CLUSTER
from navarch.ports.agents import Registration
from navarch.ports.api import FleetApi
from navarch.ports.provider import ProvisionRequest
from navarch.providers.simulated import ApiFailure, Habits, Machine

TRAINING = PoolName("training")
GPUS = tuple(Gpu(index=i, uuid=f"GPU-{i}") for i in range(8))
CREATE = "pool create training --provider sim --type h100-8x --max 4"
SOUND = HealthReport(results=(CheckResult(check="gpu", health=Health.HEALTHY),))


def plane(fleet: FleetCli) -> Plane:
    control = fleet.world.control
    assert isinstance(control, Plane)
    return control


def buy_elsewhere(fleet: FleetCli, name: str, kind: str = "h100-8x", **labels: str) -> Machine:
    """Start a machine that another program buys in the same account."""
    cloud = fleet.world.cloud
    hook, cloud.on_launch = cloud.on_launch, lambda _: None
    request = ProvisionRequest(
        token=Token(name), name=name, instance_type=kind, region="r1", labels=labels
    )
    found = fleet.runner.run(cloud.provision(request))
    cloud.on_launch = hook
    fleet.wait(120)
    return cloud.machines[found.id]


def start_agent(fleet: FleetCli, name: str, address: str = "") -> NodeId:
    agents, node = plane(fleet).agents, NodeId(name)
    inventory = Inventory(gpus=GPUS, internal_ip=address)
    registration = Registration(node=node, boot_id="boot-1", inventory=inventory, report=SOUND)

    async def live() -> None:
        while True:
            agents.heartbeat(node)
            await asyncio.sleep(5)

    fleet.runner.run(agents.register(registration))
    beating.append(fleet.runner.get_loop().create_task(live()))
    return node


beating: list[asyncio.Task[None]] = []
"""The tasks of agents; each ends with the loop of its test."""


def with_agent(fleet: FleetCli, name: str, **labels: str) -> InstanceId:
    machine = buy_elsewhere(fleet, name, **labels)
    start_agent(fleet, machine.id)
    return machine.id


def run(fleet: FleetCli, line: str) -> Result:
    """Run a command at the service that has it; a server has one API for both."""
    if line.split()[0] not in ("adopt", "release", "node"):
        return fleet.run(line)
    return make_cli(cast("FleetApi", plane(fleet).adoption), runner=fleet.runner).run(line)


def ran(fleet: FleetCli, line: str) -> str:
    done = run(fleet, line)
    assert done.exit_code == 0, done.output
    return done.output


def refused(fleet: FleetCli, line: str) -> str:
    """Return the refusal of a command that must change nothing."""
    before = owned(fleet)
    done = run(fleet, line)
    assert done.exit_code in (2, 3, 4, 5), done.output
    assert owned(fleet) == before
    return done.output


def owned(fleet: FleetCli) -> object:
    """Return the size of each pool, and what each node belongs to."""
    known = plane(fleet).store.fleet()
    nodes = {
        node.id: (node.pool, node.instance, node.gone, node.retiring is None)
        for node in known.nodes.values()
    }
    return {pool.name: pool.size for pool in known.pools.values()}, nodes


def end(fleet: FleetCli, machine: InstanceId) -> None:
    async def at_the_cloud() -> None:
        fleet.world.laws.checkers.may_be_retired.add(NodeId(machine))
        fleet.world.cloud.end(machine)

    fleet.runner.run(at_the_cloud())


def node_of(fleet: FleetCli, name: str) -> Node:
    return plane(fleet).store.fleet().nodes[NodeId(name)]


def pool_of(fleet: FleetCli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran(fleet, "pool get training -o json"))
    return found


def alive(fleet: FleetCli) -> set[InstanceId]:
    assert not fleet.world.laws.over, "a law is broken"
    return {machine.id for machine in fleet.world.cloud.alive()}


def test_adopted_machines_fill_the_pool_without_a_purchase() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first, second = with_agent(fleet, "a"), with_agent(fleet, "b")
        shown = ran(fleet, f"adopt {first} {second} --pool training --reason moving")
        assert f"Node {first} belongs to pool training, with {first}" in shown
        fleet.wait(3 * 3600)
        assert alive(fleet) == {first, second}
        pool = pool_of(fleet)
        assert (pool["size"], pool["serving"], pool["hosts"]) == (2, 2, 0)
        assert "Every pool is complete." in ran(fleet, "status")
        assert "belongs to pool training from now on" in ran(fleet, f"why {first}")
        ran(fleet, "pool scale training 3")
        fleet.wait(300)
        assert len(alive(fleet)) == 3


def test_adopting_again_changes_nothing() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a")
        ran(fleet, f"adopt {first} --pool training")
        before = node_of(fleet, first)
        assert f"Node {first} belongs to pool training" in ran(
            fleet, f"adopt {first} --pool training"
        )
        assert node_of(fleet, first) == before
        assert pool_of(fleet)["size"] == 1


def test_machines_are_adopted_by_their_tags() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        ours, other = with_agent(fleet, "a", team="ml"), with_agent(fleet, "b", team="web")
        assert "no running machine has the label team=hr" in refused(
            fleet, "adopt --tag team=hr --pool training"
        )
        ran(fleet, "adopt --tag team=ml --pool training --provider sim")
        assert node_of(fleet, ours).pool == TRAINING
        assert node_of(fleet, other).pool is None


def test_a_machine_is_adopted_with_the_agent_that_is_named_for_it() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        machine = buy_elsewhere(fleet, "a")
        start_agent(fleet, "rack-7", address=machine.private_address)
        start_agent(fleet, "rack-8", address="192.0.2.1")
        assert "no agent has registered as" in refused(fleet, f"adopt {machine.id} --pool training")
        assert "name the machine under it as well" in refused(fleet, "adopt rack-7 --pool training")
        assert "runs at 192.0.2.1, not at" in refused(
            fleet, f"adopt {machine.id}=rack-8 --pool training"
        )
        ran(fleet, f"adopt {machine.id}=rack-7 --pool training")
        assert node_of(fleet, "rack-7").instance == machine.id


def test_a_pool_refuses_what_it_would_end_at_once() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        fatal = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="GPU 0 is lost")
        ill, sound = with_agent(fleet, "a"), with_agent(fleet, "b")
        offered = with_agent(fleet, "f", **{CLUSTER: "adopt"})
        ran(fleet, f"adopt {offered} --pool training")
        fleet.runner.run(
            plane(fleet).agents.report_health(NodeId(ill), HealthReport(results=(fatal,)))
        )
        assert "is unhealthy" in refused(fleet, f"adopt {sound} {ill} --pool training")
        drained = with_agent(fleet, "c")
        ran(fleet, f"drain {drained}")
        assert "navarch uncordon" in refused(fleet, f"adopt {drained} --pool training")
        small = buy_elsewhere(fleet, "d", "a10-1x")
        start_agent(fleet, small.id)
        text = refused(fleet, f"adopt {small.id} --pool training")
        assert "does not list a10-1x at sim in r1" in text
        foreign = with_agent(fleet, "e", **{CLUSTER: "cluster-9"})
        text = refused(fleet, f"adopt {foreign} --pool training")
        assert "the labels of Navarch cluster cluster-9" in text
        end(fleet, sound)
        fleet.wait(120)
        assert sound not in alive(fleet)
        assert "as terminated" in refused(fleet, f"adopt {sound} --pool training")
        assert "no provider lists" in refused(fleet, "adopt i-none --pool training")
        assert "pool not found" in refused(fleet, f"adopt {drained} --pool nope")


def test_a_machine_of_a_pool_is_not_adopted_by_another() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        ran(fleet, CREATE.replace("training", "other"))
        ran(fleet, "pool scale training 1")
        fleet.wait(300)
        [bought] = alive(fleet)
        text = refused(fleet, f"adopt {bought} --pool other")
        assert "it is node training-0 of pool training" in text
        adopted = with_agent(fleet, "a")
        ran(fleet, f"adopt {adopted} --pool training")
        assert "of pool training" in refused(fleet, f"adopt {adopted} --pool other")


def test_a_full_pool_grows_by_what_it_adopts_and_terminates_nothing() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        ran(fleet, "pool scale training 2")
        fleet.wait(300)
        machines = [with_agent(fleet, name) for name in "abc"]
        text = refused(fleet, f"adopt {' '.join(machines)} --pool training")
        assert "holds at most 4 nodes and would need 5" in text
        before = alive(fleet)
        ran(fleet, f"adopt {' '.join(machines[:2])} --pool training")
        fleet.wait(3600)
        assert alive(fleet) == before
        assert pool_of(fleet)["size"] == 4


def test_a_released_machine_runs_on_and_nothing_is_bought_for_it() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first, second = with_agent(fleet, "a"), with_agent(fleet, "b")
        ran(fleet, f"adopt {first} {second} --pool training")
        ran(fleet, f"cordon {first}")
        fleet.wait(300)
        assert f"Node {first} released" in ran(fleet, f"release {first} --reason sold")
        fleet.wait(3 * 3600)
        assert alive(fleet) == {first, second}
        node = node_of(fleet, first)
        assert (node.pool, node.launch, node.phase) == (None, None, Phase.READY)
        assert pool_of(fleet)["size"] == 1
        assert list(plane(fleet).store.fleet().in_pool(TRAINING)) == [NodeId(second)]
        assert "does not belong to pool training any more" in ran(fleet, f"why {first}")
        # It can be adopted again.
        ran(fleet, f"adopt {first} --pool training")
        assert pool_of(fleet)["serving"] == 1
        ran(fleet, f"uncordon {first}")
        assert pool_of(fleet)["serving"] == 2


def test_a_pool_at_its_minimum_replaces_a_released_machine() -> None:
    with running_fleet() as fleet:
        ran(fleet, f"{CREATE} --min 0")
        first = with_agent(fleet, "a")
        ran(fleet, f"adopt {first} --pool training")
        control = plane(fleet)
        spec = fleet.runner.run(control.fleet.get_pool(TRAINING)).spec
        fleet.runner.run(control.fleet.put_pool(replace(spec, nodes_min=1), reason=""))
        ran(fleet, f"release {first}")
        fleet.wait(300)
        assert first in alive(fleet)
        assert len(alive(fleet)) == 2


def test_only_an_adopted_machine_can_be_released() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        ran(fleet, "pool scale training 1")
        fleet.wait(300)
        assert "navarch terminate training-0" in refused(fleet, "release training-0")
        host = start_agent(fleet, "rack-1")
        assert "nothing to release" in refused(fleet, f"release {host}")
        adopted = with_agent(fleet, "a")
        ran(fleet, f"adopt {adopted} --pool training")
        assert f"navarch release {adopted}" in refused(fleet, f"node forget {adopted}")
        ran(fleet, f"terminate {adopted} --yes")
        assert "is being terminated" in refused(fleet, f"release {adopted}")


def test_a_broken_adopted_machine_is_replaced_like_any_other() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a")
        ran(fleet, f"adopt {first} --pool training")
        fatal = CheckResult(
            check="xid", health=Health.UNHEALTHY, reason="XID 79", fatal=True, lasting=True
        )
        fleet.runner.run(
            plane(fleet).agents.report_health(NodeId(first), HealthReport(results=(fatal,)))
        )
        fleet.wait(1800)
        assert node_of(fleet, first).gone
        assert first not in alive(fleet)
        assert len(alive(fleet)) == 1


def test_an_adopted_machine_that_ends_at_the_cloud_is_replaced() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a")
        ran(fleet, f"adopt {first} --pool training")
        end(fleet, first)
        fleet.wait(900)
        assert node_of(fleet, first).gone
        assert len(alive(fleet)) == 1


def test_nothing_is_adopted_while_a_provider_cannot_list_its_machines() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a")
        cloud = fleet.world.cloud
        sound, cloud.habits = cloud.habits, Habits(outages={"": ApiFailure.FAIL})
        refused(fleet, f"adopt {first} --pool training")
        cloud.habits = sound
        ran(fleet, f"adopt {first} --pool training")


def test_an_adopted_machine_is_labelled_until_it_is_released() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        machine = buy_elsewhere(fleet, "a", team="ml")
        start_agent(fleet, machine.id)
        ran(fleet, f"adopt {machine.id} --pool training")
        fleet.wait(60)
        assert machine.request.labels == {"team": "ml", CLUSTER: "cluster-1"}
        ran(fleet, f"release {machine.id}")
        fleet.wait(60)
        assert machine.request.labels == {"team": "ml"}
        assert node_of(fleet, machine.id).mark is None


def test_labels_are_put_and_removed_once_the_provider_answers_again() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        machine = buy_elsewhere(fleet, "a")
        start_agent(fleet, machine.id)
        cloud = fleet.world.cloud
        sound = cloud.habits
        for command in (f"adopt {machine.id} --pool training", f"release {machine.id}"):
            before = dict(machine.request.labels)
            ran(fleet, command)
            cloud.habits = Habits(outages={"": ApiFailure.FAIL})
            fleet.wait(300)
            assert machine.request.labels == before
            cloud.habits = sound
            fleet.wait(600)
            assert machine.request.labels != before
        assert alive(fleet) == {machine.id}


def test_a_label_that_a_release_has_left_does_not_prevent_a_new_adoption() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a", **{CLUSTER: "cluster-1"})
        fleet.wait(1800)
        # The name alone proves nothing, so it is no orphan.
        assert alive(fleet) == {first}
        ran(fleet, f"adopt {first} --pool training")


def test_two_machines_cannot_have_one_agent() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first, second = buy_elsewhere(fleet, "a"), buy_elsewhere(fleet, "b")
        start_agent(fleet, "rack-7")
        both = f"{first.id}=rack-7 {second.id}=rack-7"
        text = refused(fleet, f"adopt {both} --pool training")
        assert "node rack-7 cannot run on several machines" in text


def test_a_pool_of_gangs_adopts_nothing() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        control, first = plane(fleet), with_agent(fleet, "a")
        spec = fleet.runner.run(control.fleet.get_pool(TRAINING)).spec
        fleet.runner.run(control.fleet.put_pool(replace(spec, gang=2), reason=""))
        assert "buys gangs" in refused(fleet, f"adopt {first} --pool training")


@pytest.mark.parametrize("words", ["--pool training", "i-1"])
def test_a_command_without_machines_or_pool_is_refused(words: str) -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        refused(fleet, f"adopt {words}")


def test_the_cost_of_an_adopted_machine_begins_and_ends_with_its_time_in_the_pool() -> None:
    with running_fleet() as fleet:
        ran(fleet, CREATE)
        first = with_agent(fleet, "a")
        fleet.wait(10 * 3600)
        ran(fleet, f"adopt {first} --pool training")
        fleet.wait(3600)
        ran(fleet, f"release {first}")
        fleet.wait(10 * 3600)
        [line] = json.loads(ran(fleet, "cost -o json"))["lines"]
        assert line["name"] == "training"
        assert 0.99 < float(line["spent"]) / 98.32 < 1.01
