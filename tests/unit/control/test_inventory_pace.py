"""How often the machines of a provider are listed while one of them has no address."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.control.providers.guard import GuardedProvider
from navarch.control.providers.inventory import (
    BUSY,
    PROMPT,
    QUIET,
    InventoryController,
    PendingObservations,
)
from navarch.control.runtime.operations import OperationRunner
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Phase
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import H100, NOW, ControllerDriver, a_node, a_pool

CLUSTER = Cluster(id="c", secret=b"x" * 32)
NAME = NodeId("training-0")


class Cloud:
    """A cloud whose machine has no address at first."""

    name = H100.provider
    address = ""

    async def list_instances(self) -> Sequence[Instance]:
        token = a_node(NAME).launch
        assert token is not None
        owner = Owner(node=NAME, pool=a_pool().name, token=token.token)
        return [
            Instance(
                id=InstanceId(f"i-{NAME}"),
                provider=self.name,
                status=InstanceStatus.RUNNING,
                instance_type=H100.instance_type,
                region=H100.region,
                public_address=self.address,
                labels=CLUSTER.labels(owner),
                launched_at=NOW - timedelta(hours=1),
            )
        ]

    async def provision(self, request: ProvisionRequest) -> Instance:
        raise NotImplementedError(request)

    async def terminate(self, instance: InstanceId) -> None:
        raise NotImplementedError(instance)


class Site:
    """A provider with one machine, and its inventory."""

    def __init__(self, store: MemoryStore, tasks: asyncio.TaskGroup) -> None:
        self.clock, self.store, self.cloud = SimClock(), store, Cloud()
        self._driver = ControllerDriver(
            self.clock,
            store,
            InventoryController(
                self.clock,
                store,
                GuardedProvider(self.cloud),
                TelemetryTable(self.clock, timeout=timedelta(minutes=1)),
                OperationRunner(self.clock, SeededEntropy("1"), tasks, strict=True),
                PendingObservations(started_at=NOW),
            ),
        )

    @property
    def address(self) -> str:
        launch = self.store.fleet().nodes[NAME].launch
        assert launch is not None
        return launch.public_address

    async def list(self) -> None:
        """Wait until the machines are listed next."""
        await asyncio.sleep(self.pause.total_seconds())
        await self._driver.reconcile()

    @property
    def pause(self) -> timedelta:
        """How long it is until the next listing."""
        due = self._driver.due_at()
        assert due is not None
        return due - self.clock.now()

    async def note(self) -> None:
        """Change the record of the node, as progress of its boot does."""
        fleet = self.store.fleet()
        node = evolve(fleet.nodes[NAME], cordoned="for a test")
        await self.store.commit(Change(nodes=[node]), based_on=fleet.revision)

    async def register(self) -> None:
        fleet = self.store.fleet()
        node = evolve(fleet.nodes[NAME], phase=Phase.READY, registered_at=self.clock.now())
        await self.store.commit(Change(nodes=[node]), based_on=fleet.revision)


def run(phase: Phase, story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryStore(CLUSTER)
        change = Change(pools=[a_pool()], nodes=[a_node(NAME, phase=phase)])
        await store.commit(change, based_on=0)
        async with asyncio.TaskGroup() as tasks:
            await story(Site(store, tasks))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_machines_are_listed_often_until_a_booting_one_has_an_address() -> None:
    async def story(site: Site) -> None:
        await site.list()
        assert site.pause == BUSY
        site.cloud.address = "198.51.100.7"
        await site.list()
        assert site.address == "198.51.100.7"
        await site.list()
        assert site.pause == QUIET

    run(Phase.BOOTING, story)


def test_commits_while_a_machine_boots_bring_its_listing_no_closer_than_that() -> None:
    async def story(site: Site) -> None:
        await site.list()
        await site.note()
        assert site.pause == BUSY

    run(Phase.BOOTING, story)


def test_a_node_that_registers_without_an_address_gets_it_at_once() -> None:
    async def story(site: Site) -> None:
        await site.list()
        await site.register()
        assert site.pause == PROMPT
        site.cloud.address = "198.51.100.7"
        await site.list()
        assert site.address == "198.51.100.7"

    run(Phase.BOOTING, story)


def test_a_machine_that_never_gets_an_address_is_not_listed_often_for_ever() -> None:
    async def story(site: Site) -> None:
        await site.list()
        await site.register()
        await site.list()
        assert site.pause == QUIET

    run(Phase.BOOTING, story)
