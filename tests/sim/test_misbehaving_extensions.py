"""Extensions that raise, hang or lie: the fleet goes on, and no sound machine ends."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from tests.support.seeds import seeds

from navarch.app.control_plane import Opinions
from navarch.autoscale.factory import build_autoscaler
from navarch.control.runtime.extensions import FORGET_AFTER, ExtensionKind
from navarch.core.autoscaling import Autoscaling, QueueSettings
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.instance import Instance
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import Remediation
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.api import FailingController
from navarch.ports.autoscaler import PoolMetrics, PoolState, Recommendation
from navarch.ports.provider import ProvisionOption
from navarch.ports.remediator import Remedy, Treatment
from navarch.providers.simulated import SimulatedCloud
from navarch.provision import FirstAvailable
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.world import World, simulate
from navarch.testing.misbehaviour import Misbehaviour, Switch, misbehaving
from navarch.testing.worlds import H100, a_pool

OURS, OTHER = PoolName("training"), PoolName("other")
MINE = "mine:Remediator"
HOUR = 3600.0
SCALED = Autoscaling(queue=QueueSettings(jobs_per_node=1))


@dataclass
class Case:
    """A world with one extension that can be made to misbehave."""

    kind: ExtensionKind
    switch: Switch = field(default_factory=Switch)

    @property
    def pools(self) -> Sequence[Pool]:
        elsewhere = evolve(H100, provider=ProviderName("elsewhere"))
        return [
            a_pool(OURS, remediation=Remediation(strategy=MINE)),
            a_pool(OTHER, offerings=(elsewhere,)),
        ]

    def opinions(self) -> Opinions:
        remediator, scheduler = CordonAndReplace(), FirstAvailable()
        if self.kind is ExtensionKind.REMEDIATOR:
            remediator = misbehaving(remediator, self.switch)
        if self.kind is ExtensionKind.PROVISION_SCHEDULER:
            scheduler = misbehaving(scheduler, self.switch)
        return Opinions(
            remediators={MINE: remediator},
            provision_schedulers={OURS: scheduler},
        )

    def prepare(self, world: World) -> None:
        leadership, switch = world.leadership, self.switch
        leadership.strict = False
        world.other_clouds.append(
            SimulatedCloud(world.clock, SeededEntropy(f"{world.seed}/b"), name="elsewhere")
        )
        for cloud in world.other_clouds:
            cloud.on_launch = world.machine_launched
            cloud.on_end = world.machine_ended
            cloud.on_boot = world.machine_restarted
        if self.kind is ExtensionKind.WORKLOAD_NOTIFIER:
            leadership.workloads = lambda: misbehaving(world.workloads, switch)
        if self.kind is ExtensionKind.PROVIDER:
            leadership.clouds = lambda: [misbehaving(world.cloud, switch), *world.other_clouds]
        if self.kind in (ExtensionKind.AUTOSCALER, ExtensionKind.METRICS_SOURCE):
            world.hosts.load = lambda _: 50.0
            autoscaler, source = build_autoscaler(SCALED), Jobs()
            if self.kind is ExtensionKind.AUTOSCALER:
                autoscaler = misbehaving(autoscaler, switch)
            else:
                source = misbehaving(source, switch)
            leadership.autoscalers[OURS] = autoscaler
            leadership.metrics = source

    def play(self, story: Callable[[World], object], seed: int) -> None:
        simulate(
            story,  # type: ignore[arg-type]
            seed=seed,
            pools=self.pools,
            opinions=self.opinions(),
            prepare=self.prepare,
        )


class Jobs:
    """A queue with two jobs."""

    async def pool_metrics(self, _pool: PoolName) -> PoolMetrics:
        return PoolMetrics(queue_depth=2)


GUARDED = (
    ExtensionKind.REMEDIATOR,
    ExtensionKind.AUTOSCALER,
    ExtensionKind.METRICS_SOURCE,
    ExtensionKind.PROVISION_SCHEDULER,
    ExtensionKind.PROVIDER,
    ExtensionKind.WORKLOAD_NOTIFIER,
)


def alive(world: World, node: NodeId) -> bool:
    return any(machine.request.name == node for machine in world.alive())


async def both_serve(world: World) -> None:
    await world.until(
        lambda: all(len(world.serving(pool)) >= 2 for pool in (OURS, OTHER)), within_s=2 * HOUR
    )


def recorded_failures(world: World) -> set[str]:
    """Return the kinds of the extensions whose failures are in the journal."""
    events = (event for _, some in world.recorded for event in some)
    return {event.facts["kind"] for event in events if event.kind == "extension.failed"}


async def shown(world: World) -> Sequence[FailingController]:
    return (await world.ask(lambda fleet: fleet.status())).failing


@pytest.mark.parametrize("kind", GUARDED)
@pytest.mark.parametrize("seed", seeds(len(Misbehaviour) * 6, gate=2))
def test_the_fleet_goes_on_while_an_extension_misbehaves(kind: ExtensionKind, seed: int) -> None:
    case = Case(kind)
    # Neighbouring seeds of one kind show different misbehaviours.
    hows = list(Misbehaviour)
    how = hows[(seed + GUARDED.index(kind)) % len(hows)]
    if kind is ExtensionKind.REMEDIATOR and how is Misbehaviour.RETURNS_NOTHING:
        how = Misbehaviour.RETURNS_NONSENSE  # To do nothing is a valid decision.
    chance = random.Random(f"{kind}/{seed}")

    async def story(world: World) -> None:
        await both_serve(world)
        ours, sound = chance.sample(world.serving(OURS), 2)
        theirs, their_sound = chance.sample(world.serving(OTHER), 2)
        case.switch.how = how
        await world.clock.sleep(chance.uniform(0.0, 120.0))
        world.fail(theirs, "XID 79")
        world.fail(ours, "XID 79")
        await world.until(lambda: world.fleet().nodes[theirs].gone, within_s=HOUR)
        for _ in range(12):
            await world.clock.sleep(chance.uniform(100.0, 500.0))
            if chance.random() < 0.1:
                world.crash()
        assert case.switch.calls, "the extension was called"
        assert str(kind) in recorded_failures(world)
        for node in (sound, their_sound):
            assert alive(world, node), f"{node} is sound: {world.describe()}"
        assert len(world.serving(OTHER)) == 2

        case.switch.how = None
        await both_serve(world)
        await world.until(lambda: world.fleet().nodes[ours].gone, within_s=2 * HOUR)
        await world.clock.sleep((FORGET_AFTER + timedelta(minutes=1)).total_seconds())
        assert not await shown(world)
        assert alive(world, sound), "no sound machine had to go"

    case.play(story, seed)


class ReplacesAll:
    """A remediator that replaces whatever it is asked about."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool, node
        return Treatment(remedy=Remedy.REPLACE, reason="I say so")


class Overbids:
    """An autoscaler that wants more than there is."""

    name = "overbids"

    def recommend(self, pool: PoolState) -> Recommendation:
        return Recommendation(target_nodes=10**9, reason=f"{pool.pool} can never be large enough")


class Infinite:
    """A provision scheduler with scores beyond all numbers."""

    def score(self, option: ProvisionOption) -> float:
        return float("inf") if option.position else float("-inf")


class ForgetfulCloud(SimulatedCloud):
    """A provider whose listings are sometimes empty, although its machines run."""

    empty = False

    async def list_instances(self) -> Sequence[Instance]:
        found = await super().list_instances()
        return [] if self.empty else found


@pytest.mark.parametrize("seed", seeds(30, gate=1))
@pytest.mark.parametrize("lie", ["remediator", "autoscaler", "provision scheduler", "provider"])
def test_no_sound_machine_ends_because_an_extension_lies(lie: str, seed: int) -> None:
    case = Case(ExtensionKind.WITNESS)  # which no case makes misbehave
    lying = case.opinions()
    if lie == "remediator":
        lying = replace(lying, remediators={MINE: ReplacesAll()})
    if lie == "provision scheduler":
        lying = replace(lying, provision_schedulers={OURS: Infinite()})

    def prepare(world: World) -> None:
        if lie == "provider":
            world.cloud = ForgetfulCloud(world.clock, SeededEntropy(f"{seed}/cloud"))
            world.cloud.on_launch = world.machine_launched
            world.cloud.on_end = world.machine_ended
            world.cloud.on_boot = world.machine_restarted
        case.prepare(world)
        if lie == "autoscaler":
            world.hosts.load = lambda _: 50.0
            world.leadership.metrics = Jobs()
            world.leadership.autoscalers[OURS] = Overbids()

    async def story(world: World) -> None:
        await both_serve(world)
        sound = [*world.serving(OURS), *world.serving(OTHER)]
        if isinstance(world.cloud, ForgetfulCloud):
            world.cloud.empty = True
        await world.clock.sleep(2 * HOUR)
        assert all(alive(world, node) for node in sound), world.describe()
        assert set(sound) <= {*world.serving(OURS), *world.serving(OTHER)}
        assert len(world.nodes(OURS)) <= world.fleet().pools[OURS].nodes_max
        if isinstance(world.cloud, ForgetfulCloud):
            world.cloud.empty = False

    simulate(story, seed=seed, pools=case.pools, opinions=lying, prepare=prepare)
