"""Terminations, and the state that is kept until machines are gone."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from navarch.control.nodes.termination import (
    LISTED_WITHIN,
    LOOK_AGAIN,
    TerminationController,
)
from navarch.control.providers.guard import GuardedProvider, Providers
from navarch.control.providers.inventory import PendingObservations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import InstanceNotFoundError, ProviderError, RejectedError, TransientError
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Instance
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, NOW, ControllerDriver, a_node, a_pool

NAME = NodeId("training-0")
LEAVING = a_node(NAME, phase=Phase.TERMINATING, registered_at=NOW)


class Cloud:
    """A cloud that no longer lists a machine before its terminate call returns."""

    name = H100.provider

    def __init__(
        self, store: MemoryStore, meanwhile: Node, error: ProviderError | None = None
    ) -> None:
        self._store = store
        self._meanwhile = meanwhile
        self._error = error
        self.asked: list[InstanceId] = []

    async def provision(self, request: ProvisionRequest) -> Instance:
        raise RejectedError(f"nothing is sold here: {request}")

    async def list_instances(self) -> Sequence[Instance]:
        return []

    async def terminate(self, instance: InstanceId) -> None:
        self.asked.append(instance)
        if self._error is not None:
            raise self._error
        if self._meanwhile != LEAVING:
            change = Change(nodes=[self._meanwhile])
            await self._store.commit(change, based_on=self._store.fleet().revision)


def terminate_node(meanwhile: Node, error: ProviderError | None = None) -> PendingObservations:
    """Return the recorded state once the terminate call has returned."""
    return play(LEAVING, meanwhile, error)[0]


def play(
    node: Node, meanwhile: Node, error: ProviderError | None = None
) -> tuple[PendingObservations, Cloud]:
    async def story() -> tuple[PendingObservations, Cloud]:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(pools=[a_pool()], nodes=[node]), based_on=0)
        evidence = PendingObservations(started_at=LEAVING.since)
        cloud = Cloud(store, meanwhile, error)
        providers = Providers([GuardedProvider(cloud)])
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = TerminationController(clock, store, providers, operations, evidence)
            await ControllerDriver(clock, store, controller).reconcile()
        return evidence, cloud

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_the_time_of_a_termination_is_kept_until_the_machine_is_gone() -> None:
    assert list(terminate_node(LEAVING).stopped_at) == [NAME]


def test_nothing_is_kept_of_a_machine_that_is_gone_before_the_call_returns() -> None:
    assert terminate_node(evolve(LEAVING, phase=Phase.GONE)).stopped_at == {}


def test_a_termination_that_failed_does_not_count_as_done() -> None:
    assert terminate_node(LEAVING, TransientError("try again")).stopped_at == {}


def test_a_machine_that_the_cloud_no_longer_finds_counts_as_terminated() -> None:
    assert list(terminate_node(LEAVING, InstanceNotFoundError("gone")).stopped_at) == [NAME]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_machine_that_an_earlier_process_may_have_ended_is_listed_first(
    *, is_listed: bool
) -> None:
    async def story() -> None:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
        leaving = evolve(LEAVING, since=clock.now() - timedelta(seconds=1))
        await store.commit(Change(pools=[a_pool()], nodes=[leaving]), based_on=0)
        cloud, observed = Cloud(store, LEAVING), PendingObservations(started_at=clock.now())
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = TerminationController(
                clock, store, Providers([GuardedProvider(cloud)]), operations, observed
            )
            driver = ControllerDriver(clock, store, controller)
            await driver.reconcile()
            await clock.sleep(LOOK_AGAIN.total_seconds())
            await driver.reconcile()
            assert not cloud.asked
            if is_listed:
                observed.listed_at[H100.provider] = clock.now()
                await clock.sleep(LOOK_AGAIN.total_seconds())
            else:
                await clock.sleep(LISTED_WITHIN.total_seconds())
            await driver.reconcile()
            await clock.sleep(0.001)
            assert cloud.asked == [LEAVING.instance], "it is not forgotten without a listing either"

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def test_only_terminating_nodes_lose_their_machine() -> None:
    _, cloud = play(LEAVING, LEAVING)
    assert cloud.asked == [LEAVING.instance]
    for phase in (Phase.BOOTING, Phase.READY, Phase.DRAINING):
        _, cloud = play(a_node(NAME, phase=phase), LEAVING)
        assert cloud.asked == []
