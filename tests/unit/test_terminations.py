"""Machines that must go are ended, and forgotten once they are gone."""

import asyncio
from collections.abc import Sequence

from navarch.control.runtime.operations import OperationRunner
from navarch.control.providers.pending_observations import PendingObservations
from navarch.control.providers.guard import GuardedProvider, Providers
from navarch.control.nodes.termination import TerminationController
from navarch.core.errors import RejectedError
from navarch.core.evolve import evolve
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Instance
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, NOW, a_node, a_pool

NAME = NodeId("training-0")
LEAVING = a_node(NAME, phase=Phase.TERMINATING, registered_at=NOW)


class Cloud:
    """A cloud that is still thinking when its listing says already that the machine is gone."""

    name = H100.provider

    def __init__(self, store: MemoryStore, meanwhile: Node) -> None:
        self._store = store
        self._meanwhile = meanwhile

    async def provision(self, request: ProvisionRequest) -> Instance:
        raise RejectedError(f"nothing is sold here: {request}")

    async def list_instances(self) -> Sequence[Instance]:
        return []

    async def terminate(self, instance: InstanceId) -> None:
        del instance
        if self._meanwhile != LEAVING:
            change = Change(nodes=[self._meanwhile])
            await self._store.commit(change, based_on=self._store.fleet().revision)


def ended(meanwhile: Node) -> PendingObservations:
    """Return what is known once the cloud has answered, with what became of the node before."""

    async def story() -> PendingObservations:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(pools=[a_pool()], nodes=[LEAVING]), based_on=0)
        evidence = PendingObservations(started_at=NOW)
        providers = Providers([GuardedProvider(Cloud(store, meanwhile))])
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(
                clock, SeededEntropy("1"), tasks, done=lambda: None, strict=True
            )
            await TerminationController(clock, store, providers, errands, evidence).reconcile()
        return evidence

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_when_a_cloud_agreed_to_end_a_machine_is_kept_until_it_is_gone() -> None:
    assert list(ended(LEAVING).stopped_at) == [NAME]


def test_nothing_is_kept_of_a_machine_that_is_gone_before_its_cloud_has_answered() -> None:
    assert ended(evolve(LEAVING, phase=Phase.GONE)).stopped_at == {}
