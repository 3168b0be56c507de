"""Controllers of single nodes: what they do, how often, and for which nodes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from navarch.control.nodes.controller import NodeController
from navarch.control.nodes.drain import POLL, DrainController
from navarch.control.nodes.launch import TRANSIENT_MAX, LaunchController
from navarch.control.nodes.termination import REPEAT_AFTER, TerminationController
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import PendingObservations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import TransientError
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Instance
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, NOW, ControllerDriver, a_node, a_pool

C = TypeVar("C", bound=NodeController)

NAME = NodeId("training-0")
LEAVING = Retirement(reason="broken")


class Cloud:
    """A cloud that takes a while, and refuses every purchase for the moment."""

    name = H100.provider

    def __init__(self) -> None:
        self.calls = 0
        self.takes_s = 0.0

    async def provision(self, request: ProvisionRequest) -> Instance:
        await self.terminate(InstanceId(request.name))
        raise TransientError("not now")

    async def terminate(self, instance: InstanceId) -> None:  # noqa: ARG002
        self.calls += 1
        await asyncio.sleep(self.takes_s)

    async def list_instances(self) -> Sequence[Instance]:
        return []


class Workloads:
    """A workload system that answers as the test needs."""

    name = "workloads"

    def __init__(self) -> None:
        self.answer: bool | TransientError = False
        self.queries = 0

    async def cordon(self, node: NodeId, reason: str) -> None: ...

    async def uncordon(self, node: NodeId) -> None: ...

    async def drain(self, node: NodeId, reason: str) -> None: ...

    async def is_drained(self, node: NodeId) -> bool:  # noqa: ARG002
        self.queries += 1
        if isinstance(self.answer, TransientError):
            raise self.answer
        return self.answer


class Site:
    """A store with one node, and the controllers of nodes."""

    def __init__(self, store: MemoryStore, tasks: asyncio.TaskGroup) -> None:
        self.clock, self.store, self.cloud = SimClock(), store, Cloud()
        self.operations = OperationRunner(self.clock, SeededEntropy("1"), tasks, strict=True)
        self.observations = PendingObservations(started_at=NOW - timedelta(days=1))
        self.workloads = Workloads()
        providers = Providers([self.cloud])
        shared = (self.clock, store, providers, self.operations, self.observations)
        self.launches = self._driven(LaunchController(*shared))
        self.terminations = self._driven(TerminationController(*shared))
        self.drains = self._driven(
            DrainController(self.clock, store, self.workloads, self.operations)
        )

    def _driven(self, controller: C) -> ControllerDriver[C]:
        return ControllerDriver(self.clock, self.store, controller)

    async def commit(self, *nodes: Node) -> None:
        await self.store.commit(Change(nodes=nodes), based_on=self.store.fleet().revision)

    async def round(self, driver: ControllerDriver[Any], after: timedelta) -> None:
        """Run a round `after` a while, and let what it starts come to an end."""
        await asyncio.sleep(after.total_seconds())
        await driver.reconcile()
        await asyncio.sleep(0.001)


def run(node: Node, story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(pools=[a_pool()], nodes=[node]), based_on=0)
        async with asyncio.TaskGroup() as tasks:
            await story(Site(store, tasks))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_launch_in_flight_is_not_started_again() -> None:
    async def story(site: Site) -> None:
        site.cloud.takes_s = 30.0
        await site.launches.reconcile()
        site.launches.controller.queue.add(NAME)
        await site.round(site.launches, timedelta(seconds=5))
        assert site.cloud.calls == 1

    run(a_node(NAME, phase=Phase.REQUESTED), story)


def test_a_launch_is_refused_after_several_transient_failures_and_not_before() -> None:
    async def story(site: Site) -> None:
        for count in range(1, TRANSIENT_MAX + 1):
            await site.round(site.launches, timedelta(minutes=10))
            assert site.cloud.calls == count
            launch = site.store.fleet().nodes[NAME].launch
            assert (launch is not None and launch.open) == (count < TRANSIENT_MAX)

    run(a_node(NAME, phase=Phase.REQUESTED), story)


def test_a_termination_is_repeated_after_a_pause_and_keeps_its_first_date() -> None:
    async def story(site: Site) -> None:
        await site.round(site.terminations, timedelta(0))
        stopped_at = site.observations.stopped_at[NAME]
        await site.round(site.terminations, REPEAT_AFTER / 2)
        assert site.cloud.calls == 1
        await site.round(site.terminations, REPEAT_AFTER)
        assert site.cloud.calls == 2
        assert site.observations.stopped_at[NAME] == stopped_at

    run(a_node(NAME, phase=Phase.TERMINATING), story)


def test_a_node_that_no_longer_needs_work_is_left_alone() -> None:
    async def story(site: Site) -> None:
        await site.commit(a_node(NAME, phase=Phase.GONE))
        await site.round(site.terminations, timedelta(0))
        assert site.cloud.calls == 0

    run(a_node(NAME, phase=Phase.TERMINATING), story)


def test_a_node_is_queried_only_after_its_drain_was_announced() -> None:
    async def story(site: Site) -> None:
        site.workloads.answer = True
        await site.round(site.drains, timedelta(0))
        assert site.workloads.queries == 0
        await site.commit(draining(notified=NotifiedState.DRAINING))
        await site.round(site.drains, timedelta(0))
        assert site.drains.controller.drained.keys() == {NAME}

    run(draining(notified=NotifiedState.OPEN), story)


def draining(notified: NotifiedState) -> Node:
    return a_node(NAME, phase=Phase.DRAINING, retiring=LEAVING, notified=notified)


def test_a_node_with_work_is_queried_again_after_a_pause() -> None:
    async def story(site: Site) -> None:
        await site.round(site.drains, timedelta(0))
        await site.round(site.drains, POLL / 2)
        assert site.workloads.queries == 1
        await site.round(site.drains, POLL)
        assert site.workloads.queries == 2
        assert site.drains.controller.drained.keys() == set()

    run(draining(notified=NotifiedState.DRAINING), story)


@pytest.mark.parametrize("answer", [True, False, TransientError("no answer")])
def test_a_node_without_an_answer_is_not_empty(answer: bool | TransientError) -> None:
    async def story(site: Site) -> None:
        site.workloads.answer = answer
        assert await site.drains.controller.is_empty(NAME) == (answer is True)

    run(draining(notified=NotifiedState.DRAINING), story)
