"""Machines of EC2 that Navarch did not buy are adopted and released, through crashes."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.support.ec2_server import Ec2Server

from navarch.app.control_plane import Plane
from navarch.core.errors import NavarchError, NotPossibleError
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.instance import Inventory
from navarch.core.launch import Offering
from navarch.core.ownership import CLUSTER
from navarch.core.pool import Pool
from navarch.ports.adoption import MachineChoice
from navarch.ports.agents import Registration
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import InlineOffload
from navarch.sim.world.leader import Crash, CrashPoint
from navarch.testing.adapter_sweep import POOL, SweptFleet, live_through

OFFERING = Offering(
    provider=ProviderName("aws"), instance_type="p5.48xlarge", region="us-east-1", zone="us-east-1a"
)
SOUND = HealthReport(results=(CheckResult(check="gpu", health=Health.HEALTHY),))
CHOICE = MachineChoice(labels={"team": "ml"})
LONG = timedelta(days=30)
"""No agent runs on the machine that is bought."""
SETTLED_S = 300.0
"""Enough for every listing that could find fault with a machine."""
DECISIONS = ("node.adopted", "node.released")


def live(ec2: Ec2Server, wire: CrashPoint) -> SweptFleet:
    """Adopt two machines, buy a third, and give one up; none may end."""

    def build(clock: Clock, offload: Offload) -> AwsAccount:
        return AwsAccount(clock, offload, AwsSettings(endpoint=ec2.url, regions=("us-east-1",)))

    async def story(swept: SweptFleet) -> None:
        by_hand = build(swept.clock, InlineOffload())
        machines = [(await by_hand.provision(by_hand_request(name))).id for name in ("a", "b")]
        pool = Pool(name=POOL, offerings=(OFFERING,), nodes_min=0, nodes_max=3, boot_deadline=LONG)
        await swept.submit(lambda plane: plane.fleet.put_pool(pool_spec(pool), reason=""))
        agents = [asyncio.create_task(run_agent(swept, NodeId(name))) for name in machines]
        await swept.clock.sleep(60.0)
        await swept.submit(lambda plane: plane.adoption.adopt(POOL, CHOICE, reason=""))
        await swept.clock.sleep(SETTLED_S)
        assert set(ec2.alive()) == swept.rows() == set(machines)
        await swept.submit(lambda plane: plane.fleet.scale(POOL, 3, reason=""))
        await swept.until(3)
        await swept.submit(lambda plane: release(plane, NodeId(machines[0])))
        await swept.clock.sleep(SETTLED_S)
        assert len(ec2.alive()) == 3
        assert swept.rows() == set(ec2.alive()) - {machines[0]}
        assert swept.fleet().pools[POOL].size == 2
        labels = {each.id: each.labels for each in await by_hand.list_instances()}
        assert labels[machines[0]] == {"team": "ml", "Name": "a"}
        assert labels[machines[1]] == {"team": "ml", "Name": "b", CLUSTER: swept.store.cluster.id}
        for agent in agents:
            agent.cancel()

    swept = live_through(story, build, alive=lambda: set(ec2.alive()), wire=wire)
    assert ec2.made() == 3, f"call {wire.at} of {wire.log}"
    assert "TerminateInstances" not in ec2.calls()
    return swept


def by_hand_request(name: str) -> ProvisionRequest:
    return ProvisionRequest(
        token=Token(name),
        name=name,
        instance_type="p5.48xlarge",
        region="us-east-1",
        zone="us-east-1a",
        labels={"team": "ml"},
    )


async def run_agent(swept: SweptFleet, node: NodeId) -> None:
    registration = Registration(node=node, boot_id="1", inventory=Inventory(), report=SOUND)
    while True:
        # The agent outlives every control plane.
        with contextlib.suppress(NavarchError, Crash):
            if swept.control is not None and not swept.wire.dead:
                await swept.control.agents.register(registration)
        await swept.clock.sleep(20.0)


async def release(plane: Plane, node: NodeId) -> None:
    # After a crash the request is repeated, although it may have been carried out.
    with contextlib.suppress(NotPossibleError):
        await plane.adoption.release(node, reason="")


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_a_decision_leaves_no_double_and_terminates_nothing(
    ec2: Ec2Server, after: bool
) -> None:
    whole = live(ec2, CrashPoint())
    assert whole.crashes == 0
    log = whole.wire.log
    found = [at for at, call in enumerate(log) if any(kind in call for kind in DECISIONS)]
    assert len(found) == 2
    sweep(ec2, found, after=after)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_around_a_commit_leaves_no_double_and_terminates_nothing(
    ec2: Ec2Server, after: bool
) -> None:
    log = live(ec2, CrashPoint()).wire.log
    commits = [at for at, call in enumerate(log) if call.startswith("commit")]
    around = {at + near for at in commits for near in range(-2, 3)}
    sweep(ec2, sorted(around & set(range(len(log)))), after=after)


def sweep(ec2: Ec2Server, calls: Sequence[int], *, after: bool) -> None:
    for at in calls:
        ec2.reset()
        assert live(ec2, CrashPoint(at=at, after=after)).crashes == 1
