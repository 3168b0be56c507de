"""Launches of one round that share a call, and those that need one of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.control.nodes.launch import LaunchController
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import PendingObservations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import CapacityError, OutcomeUnknownError, ProviderError, TransientError
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.core.node import Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, NOW, ControllerDriver, a_node, a_pool

NODES = [NodeId(f"training-{number}") for number in range(3)]


class BulkCloud:
    """A cloud that starts several machines in one call, with the results that a test sets."""

    name = H100.provider
    buys_once_per_token = True
    buys_many_once_per_token = False
    machines_per_call = 8
    covers_zones = True

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.zones: list[Sequence[str]] = []
        """The other zones of each call."""
        self.errors: dict[str, ProviderError] = {}
        """The results of nodes that get no machine."""
        self.returns_too_few = False

    async def provision(self, request: ProvisionRequest) -> Instance:
        (result,) = await self.provision_many([request])
        if isinstance(result, ProviderError):
            raise result
        return result

    async def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        self.calls.append([request.name for request in requests])
        self.zones.append(requests[0].zones)
        results = [self.errors.get(x.name) or _machine(x) for x in requests]
        return results[:-1] if self.returns_too_few else results

    async def terminate(self, instance: InstanceId) -> None: ...

    async def list_instances(self) -> Sequence[Instance]:
        return []


def _machine(request: ProvisionRequest) -> Instance:
    return Instance(
        id=InstanceId(f"i-{request.name}"),
        provider=H100.provider,
        status=InstanceStatus.PENDING,
        instance_type=request.instance_type,
    )


class Site:
    """A store with three requested nodes, and the controller of their launches."""

    def __init__(self, store: MemoryStore, tasks: asyncio.TaskGroup) -> None:
        self.store, self.cloud, clock = store, BulkCloud(), SimClock()
        self.clock = clock
        self.refusals: dict[NodeId, str] = {}
        self.alone = False
        """Whether the machines have user data of their own."""
        self.observations = PendingObservations(started_at=NOW - timedelta(days=1))
        controller = LaunchController(
            clock,
            store,
            Providers([self.cloud]),
            OperationRunner(clock, SeededEntropy("1"), tasks, strict=True),
            self.observations,
            refused_since=lambda launch: self.refusals.get(launch.node),
            alone=lambda _: self.alone,
        )
        self.driver = ControllerDriver(clock, store, controller)

    async def round(self, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        await self.driver.reconcile()
        await asyncio.sleep(0.001)

    def launch(self, node: NodeId) -> Launch | None:
        return self.store.fleet().nodes[node].launch

    def token(self, node: NodeId) -> Token:
        launch = self.launch(node)
        assert launch is not None
        return launch.token

    @property
    def phases(self) -> list[Phase]:
        return [self.store.fleet().nodes[node].phase for node in NODES]


def run(story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        nodes = [a_node(node, phase=Phase.REQUESTED) for node in NODES]
        await store.commit(Change(pools=[a_pool()], nodes=nodes), based_on=0)
        async with asyncio.TaskGroup() as tasks:
            await story(Site(store, tasks))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_launches_of_one_round_share_a_call() -> None:
    async def story(site: Site) -> None:
        await site.round()
        assert site.cloud.calls == [NODES]
        assert site.phases == [Phase.BOOTING] * 3

    run(story)


def test_machines_with_user_data_of_their_own_take_a_call_each() -> None:
    async def story(site: Site) -> None:
        site.alone = True
        await site.round()
        assert sorted(site.cloud.calls) == [[node] for node in NODES]

    run(story)


def test_a_launch_of_a_call_that_has_not_begun_is_not_requested_again() -> None:
    async def story(site: Site) -> None:
        await site.driver.reconcile()
        site.driver.controller.queue.add(NODES[1])
        await site.driver.reconcile()
        await site.round()
        assert site.cloud.calls == [NODES]

    run(story)


def test_each_launch_of_a_shared_call_has_its_own_result() -> None:
    async def story(site: Site) -> None:
        site.cloud.errors = {
            NODES[1]: CapacityError("sold out"),
            NODES[2]: OutcomeUnknownError("lost"),
        }
        await site.round()
        assert site.phases == [Phase.BOOTING, Phase.REQUESTED, Phase.REQUESTED]
        assert site.launch(NODES[1]) is None, "it was refused"
        assert site.observations.unsure_since.keys() == {site.token(NODES[2])}

    run(story)


def test_a_launch_with_an_unknown_outcome_is_requested_again_in_a_call_of_its_own() -> None:
    async def story(site: Site) -> None:
        token = site.token(NODES[1])
        site.observations.unsure_since[token] = NOW - timedelta(minutes=1)
        site.observations.listed_at[H100.provider] = NOW
        await site.round()
        assert site.cloud.calls == [[NODES[0], NODES[2]], [NODES[1]]]

    run(story)


def test_a_shared_launch_with_an_unknown_outcome_is_not_repeated_before_listings_settle() -> None:
    async def story(site: Site) -> None:
        site.cloud.errors = {NODES[1]: OutcomeUnknownError("lost")}
        await site.round()
        began = site.clock.now()
        site.observations.listed_at[H100.provider] = began + timedelta(seconds=10)
        await site.round(after_s=60)
        await site.round(after_s=600)
        assert site.cloud.calls == [NODES]
        site.observations.listed_at[H100.provider] = began + timedelta(seconds=600)
        await site.round(after_s=60)
        assert site.cloud.calls == [NODES, [NODES[1]]]

    run(story)


def test_a_shared_call_that_fails_for_a_moment_is_repeated_whole() -> None:
    async def story(site: Site) -> None:
        site.cloud.errors = dict.fromkeys(NODES, TransientError("too many requests"))
        await site.round()
        site.cloud.errors = {}
        await site.round(after_s=1)
        assert site.cloud.calls == [NODES], "it pauses first"
        await site.round(after_s=60)
        assert site.cloud.calls == [NODES, NODES]
        assert site.phases == [Phase.BOOTING] * 3

    run(story)


def test_a_response_without_a_result_for_each_machine_leaves_all_outcomes_unknown() -> None:
    async def story(site: Site) -> None:
        site.cloud.returns_too_few = True
        await site.round()
        assert site.phases == [Phase.REQUESTED] * 3
        assert len(site.observations.unsure_since) == 3

    run(story)


def test_a_launch_to_a_place_that_was_refused_meanwhile_is_withdrawn_without_a_call() -> None:
    async def story(site: Site) -> None:
        site.refusals = {NODES[0]: "sold out", NODES[2]: "sold out"}
        token = site.token(NODES[0])
        await site.round()
        assert site.cloud.calls == [[NODES[1]]]
        assert [site.launch(node) is None for node in NODES] == [True, False, True]
        (recorded,) = [x for x in await site.store.events() if x.event.about == f"launch/{token}"]
        assert recorded.event.kind == "launch.withdrawn"
        assert "sold out" in recorded.event.reason

    run(story)


def test_a_launch_that_may_have_a_machine_is_not_withdrawn() -> None:
    async def story(site: Site) -> None:
        site.refusals = dict.fromkeys(NODES, "sold out")
        site.observations.unsure_since[site.token(NODES[0])] = NOW - timedelta(minutes=1)
        site.observations.listed_at[H100.provider] = NOW
        await site.round()
        assert site.cloud.calls == [[NODES[0]]]

    run(story)


def test_a_launch_for_several_zones_is_not_repeated_before_listings_settle() -> None:
    async def story(site: Site) -> None:
        alone = NODES[0]
        node = site.store.fleet().nodes[alone]
        assert node.launch is not None
        covering = evolve(node, launch=evolve(node.launch, zones=("zone-2",)))
        await site.store.commit(Change(nodes=[covering]), based_on=site.store.fleet().revision)
        site.cloud.errors = {alone: OutcomeUnknownError("lost")}
        await site.round()
        began = site.clock.now()
        site.observations.listed_at[H100.provider] = began + timedelta(seconds=10)
        await site.round(after_s=60)
        assert site.cloud.calls == [[alone], NODES[1:]]
        site.observations.listed_at[H100.provider] = began + timedelta(seconds=600)
        await site.round(after_s=600)
        assert site.cloud.calls == [[alone], NODES[1:], [alone]]
        assert site.cloud.zones == [("zone-2",), (), ("zone-2",)]

    run(story)
