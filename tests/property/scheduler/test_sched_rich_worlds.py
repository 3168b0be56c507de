"""Laws that hold on random clusters that use every feature."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.framework.decision import DecisionLog
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import (
    AffinityTerm,
    ClaimUse,
    Cluster,
    JobSpec,
    NodeSpec,
    QueueSpec,
    ResourceClaim,
    ResourceSlice,
    Topology,
    TopologyConstraint,
)
from navarch.scheduler.model.placement import Hold
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask
from navarch.testing.scheduler_conformance.match import unexplained
from navarch.testing.scheduler_conformance.run import settle

CONFIG = SchedulerConfig(parameters=Parameters(use_scheduling_signatures=False))
SLICE = "nvidia.com/mig-1g.5gb"
REQUESTS = (
    ask(1),
    ask(1),
    ask(2),
    ask(0.3),
    ask(0.29, devices=2),
    ask(memory_mib=40),
    ask(mig={SLICE: 1}),
    ask(cpu_milli=700),
    ask(dra_gpus=1),
)
CONSTRAINTS = (
    None,
    None,
    None,
    TopologyConstraint(topology="t", required_level="rack"),
    TopologyConstraint(topology="t", preferred_level="rack"),
    TopologyConstraint(topology="t", required_level="zone", preferred_level="rack"),
)


@dataclass
class World:
    """A generator of clusters."""

    chance: random.Random
    nodes: list[NodeSpec] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)

    def draw(self) -> Cluster:
        for number in range(self.chance.randint(1, 6)):
            self._draw_node(f"n{number}", number)
        self.free = {n.name: n.gpus for n in self.nodes if not n.dra_gpus}
        self.slots = {n.name: n.pods for n in self.nodes}
        jobs = [self._draw_job(f"j{i}") for i in range(self.chance.randint(1, 12))]
        return a_cluster(
            nodes=self.nodes,
            queues=self._draw_queues(),
            jobs=jobs,
            topologies=(Topology(name="t", levels=("zone", "rack")),),
            resource_slices=tuple(self.slices),
            resource_claims=tuple(self.claims),
        )

    def _draw_node(self, name: str, number: int) -> None:
        labels = {"zone": f"z{number % 2}", "rack": f"r{number % 3}", "host": name}
        facts: dict[str, Any] = {"labels": labels, "cpu_milli": 3000}
        kind = self.chance.random()
        if kind < 0.15:
            self.nodes.append(a_node(name, 0, mig={SLICE: 3}, mig_strategy="mixed", **facts))
        elif kind < 0.3:
            self.nodes.append(a_node(name, 3, dra_gpus=3, **facts))
            self.slices.append(
                ResourceSlice(
                    name=name,
                    node=name,
                    device_class="gpu",
                    driver="d",
                    pool=name,
                    devices=("0", "1", "2"),
                )
            )
        elif kind < 0.4:
            self.nodes.append(a_node(name, 0, **facts))
        else:
            gpus, pods = self.chance.choice([1, 2, 4, 8]), self.chance.choice([3, 110])
            memory = self.chance.choice([100, 200])
            self.nodes.append(a_node(name, gpus, pods=pods, gpu_memory_mib=memory, **facts))

    def _draw_queues(self) -> list[QueueSpec]:
        choose = self.chance.choice
        tops = [a_queue("d1", quota=choose([-1, 2, 4])), a_queue("d2", quota=2, limit=6)]
        return tops + [
            a_queue(
                name,
                parent=parent,
                quota=choose([0, 1, 2, 4]),
                limit=choose([-1, -1, 5]),
                weight=choose([0, 1, 2]),
                priority=choose([100, 100, 101]),
            )
            for name, parent in (("a", "d1"), ("b", "d1"), ("c", "d2"))
        ]

    def _draw_job(self, name: str) -> JobSpec:
        request = self.chance.choice(REQUESTS)
        tasks, queue = self.chance.randint(1, 4), self.chance.choice("abc")
        facts: dict[str, Any] = {}
        if request.dra_gpus:
            labels = {"kai.scheduler/queue": queue}
            self.claims.append(ResourceClaim(name=name, labels=labels, device_class="gpu"))
            facts["claims"] = (ClaimUse(claim=name),)
        elif self.chance.random() < 0.1:
            term = AffinityTerm(topology_key="host", labels={"app": "x"})
            facts |= {"labels": {"app": "x"}, "anti_affinity": (term,)}
        shared = request.gpu.shared and request.gpu.devices == 1
        on = None
        if request.gpu.count or shared:
            tasks = 1 if shared else tasks
            on = self._draw_home(max(1, request.gpu.count) * tasks, tasks)
        return a_job(
            name,
            queue=queue,
            tasks=tasks,
            request=request,
            on=on,
            groups=[f"g-{name}"] if shared else [],
            minimum=self.chance.randint(1, tasks),
            priority=self.chance.choice([50, 50, 75, 100, 125]),
            age=self.chance.randint(0, 3),
            task=facts,
            topology=self.chance.choice(CONSTRAINTS),
        )

    def _draw_home(self, gpus: int, pods: int) -> str | None:
        room = [n for n, left in self.free.items() if left >= gpus and self.slots[n] >= pods]
        if not room or self.chance.random() < 0.4:
            return None
        home = self.chance.choice(room)
        self.free[home] -= gpus
        self.slots[home] -= pods
        return home


def broken_laws(session: Session) -> Iterator[str]:
    for node in session.nodes.values():
        for what in ("cpu", "memory", "gpu", "pods"):
            idle = getattr(node.idle, what)
            if idle < 0 or idle + getattr(node.releasing, what) < 0:
                yield f"{node.name} is promised more {what} than it has"
        for name, shared in node.groups.items():
            if max(shared.promised_memory, shared.occupied_memory) > node.gpu_memory_mib:
                yield f"GPU {name} of {node.name} is over-full"
    holders: dict[object, set[str]] = {}
    for job in session.jobs.values():
        for task in job.tasks.values():
            for booking in task.placement.bookings:
                for claim, devices in booking.devices if booking.hold is not Hold.LEAVING else ():
                    for device in devices:
                        holders.setdefault(device, set()).add(claim)
    yield from (
        f"{device} is held by {names}" for device, names in holders.items() if len(names) > 1
    )


def live(seed: int, rounds: int = 4) -> None:
    cluster = World(random.Random(seed)).draw()
    for _ in range(rounds):
        log = DecisionLog()
        session = run_session(cluster, CONFIG, sink=log)
        assert list(broken_laws(session)) == []
        assert list(unexplained(session, log.decisions)) == []
        cluster = settle(session, frozenset())


@pytest.mark.parametrize("block", range(4))
def test_laws_hold_in_rich_worlds(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        live(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_laws_hold_in_many_rich_worlds(block: int) -> None:
    for seed in range(1000 + block * 200, 1200 + block * 200):
        live(seed, rounds=6)
