"""Orphans in a shared account: only proven ones are terminated, after three listings."""

from tests.support.ec2_server import Ec2Server

from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.adapter_sweep import CLUSTER, SweptFleet, live_through

OWNER = Owner(node=NodeId("lost-0"), pool=PoolName("lost"), token=Token("launch-lost"))
PLAIN = ProvisionRequest(
    token=Token("by-hand"), name="by-hand", instance_type="p5.48xlarge", region="us-east-1"
)


def labelled(token: str, labels: dict[str, str]) -> ProvisionRequest:
    return evolve(PLAIN, token=Token(token), name=token, labels=labels)


def unrelated() -> list[ProvisionRequest]:
    theirs = Cluster(id="theirs", secret=b"their secret").labels(OWNER)
    forged = {**CLUSTER.labels(OWNER), "navarch-signature": "0" * 32}
    moved = {**CLUSTER.labels(OWNER), "navarch-node": "another-0"}
    return [
        PLAIN,
        labelled("theirs", theirs),
        labelled("forged", forged),
        labelled("moved", moved),
        labelled("bare", {"navarch-cluster": CLUSTER.id}),
    ]


def test_only_a_proven_orphan_is_terminated_and_not_before_the_third_listing(
    ec2: Ec2Server,
) -> None:
    def build(clock: Clock, offload: Offload) -> AwsAccount:
        return AwsAccount(clock, offload, AwsSettings(endpoint=ec2.url, regions=("us-east-1",)))

    async def story(swept: SweptFleet) -> None:
        by_hand = build(swept.clock, InlineOffload())
        others = {(await by_hand.provision(request)).id for request in unrelated()}
        orphan = (await by_hand.provision(labelled("ours", CLUSTER.labels(OWNER)))).id
        ended_after = None
        for _ in range(60):
            await swept.clock.sleep(10.0)
            if ended_after is None and orphan not in set(ec2.alive()):
                ended_after = ec2.calls()["DescribeInstances"]
        assert ended_after is not None, "the orphan is still there"
        assert ended_after >= 3, "it was terminated before three listings showed it"
        assert set(ec2.alive()) == others

    live_through(story, build, alive=lambda: set(ec2.alive()))


def test_a_termination_that_ec2_refuses_for_hours_is_retried_until_it_succeeds(
    ec2: Ec2Server,
) -> None:
    def build(clock: Clock, offload: Offload) -> AwsAccount:
        return AwsAccount(clock, offload, AwsSettings(endpoint=ec2.url, regions=("us-east-1",)))

    async def story(swept: SweptFleet) -> None:
        by_hand = build(swept.clock, InlineOffload())
        await by_hand.provision(labelled("ours", CLUSTER.labels(OWNER)))
        busy = {"action": "TerminateInstances", "code": "RequestLimitExceeded", "status": 503}
        ec2.set(faults=[busy] * 30)
        for _ in range(600):
            await swept.clock.sleep(30.0)
            if not ec2.alive():
                break
        assert ec2.alive() == []
        assert ec2.calls()["TerminateInstances"] >= 31

    live_through(story, build, alive=lambda: set(ec2.alive()))
