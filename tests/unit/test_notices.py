"""Notices to the workload system, and the effects of its answers."""

import asyncio
from collections.abc import Sequence

from navarch.control.nodes.drain import (
    POLL,
    DrainController,
    NotificationController,
    plan_drains_of,
)
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import TransientError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool, indexed

NAME = NodeId("training-0")
LEAVING = a_node(
    NAME, phase=Phase.DRAINING, registered_at=NOW, retiring=Retirement(reason="XID 79")
)


class Workloads:
    """A workload system that returns the given answers, then True."""

    name = "workloads"

    def __init__(self, answers: Sequence[bool | None]) -> None:
        self._answers = list(answers)
        self.calls: list[str] = []

    async def cordon(self, node: NodeId, reason: str) -> None:
        del node, reason
        self.calls.append("cordon")

    async def uncordon(self, node: NodeId) -> None:
        del node
        self.calls.append("uncordon")

    async def drain(self, node: NodeId, reason: str) -> None:
        del node, reason
        self.calls.append("drain")

    async def is_drained(self, node: NodeId) -> bool:
        self.calls.append("is_drained")
        answer = self._answers.pop(0) if self._answers else True
        if answer is None:
            raise TransientError(f"nobody knows about {node}")
        return answer


def run_drain(node: Node, *answers: bool | None) -> tuple[Node, list[list[str]], list[str]]:
    """Return `node` after one notice and two rounds of the watch, half a poll interval apart.

    Also return the kinds of events by commit, and the calls to the workload system.
    """

    async def story() -> tuple[Node, list[list[str]], list[str]]:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(pools=[a_pool()], nodes=[node]), based_on=0)
        commits: list[list[str]] = []
        store.subscribe(lambda done: commits.append([e.kind for e in done.change.events]))
        workloads = Workloads(answers)
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            drain = DrainController(clock, store, workloads, operations)
            watch = ControllerDriver(clock, store, drain)
            plans = plan_drains_of(clock, store, indexed(store), drain)
            planning = ControllerDriver(clock, store, plans)
            controller = NotificationController(
                clock, store, workloads, operations, is_empty=drain.is_empty
            )
            notices = ControllerDriver(clock, store, controller)
            await notices.reconcile()
            for _ in range(2):
                await clock.sleep(POLL.total_seconds() / 2)
                await notices.reconcile()
                await watch.reconcile()
                await planning.reconcile()
        return store.fleet().nodes[node.id], commits, workloads.calls

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_an_idle_node_is_terminated_in_the_commit_that_records_the_notice() -> None:
    node, commits, calls = run_drain(LEAVING)

    assert (node.phase, node.notified) == (Phase.TERMINATING, NotifiedState.DRAINING)
    assert commits == [["node.announced", "node.terminating"]]
    assert calls == ["drain", "is_drained"]


def test_a_busy_node_is_polled_again_only_after_the_poll_interval() -> None:
    node, commits, calls = run_drain(LEAVING, False, False)

    assert (node.phase, node.notified) == (Phase.DRAINING, NotifiedState.DRAINING)
    assert commits == [["node.announced"]]
    assert calls == ["drain", "is_drained", "is_drained"]


def test_a_notice_is_recorded_although_the_workload_system_does_not_answer_the_poll() -> None:
    node, commits, calls = run_drain(LEAVING, None, False)

    assert (node.phase, node.notified) == (Phase.DRAINING, NotifiedState.DRAINING)
    assert commits == [["node.announced"]]
    assert calls == ["drain", "is_drained", "is_drained"], "the notifier is called once"


def test_a_node_that_was_drained_by_hand_stays_when_it_is_empty() -> None:
    node, commits, calls = run_drain(evolve(LEAVING, retiring=None))

    assert (node.phase, node.notified) == (Phase.DRAINING, NotifiedState.DRAINING)
    assert commits == [["node.announced"]]
    assert calls == ["drain"]
