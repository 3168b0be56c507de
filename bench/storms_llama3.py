"""The failures of Llama 3's training once more, with the noise of a real fleet.

419 faults in 54 days hit the machines of one job, as in `bench.llama3`. Besides, programs crash
with XIDs of their own, machines do not report for 200 seconds, and checks find sound machines
unhealthy for a minute. None of those is a reason to touch a machine.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.llama3 import (
    BYSTANDERS,
    DAY_S,
    POOLS,
    SPARES,
    Cause,
    failures,
    serving,
)
from bench.llama3_evidence import Fault, Rig, bad_kernel, killed, stopped, wild_pointer
from bench.storms_stage import Event, Stage
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Notice, NoticeKind
from navarch.core.pool import Pool
from navarch.health.checks.issues import judge_notices
from navarch.ports.store import Committed
from navarch.sim.world.world import World
from navarch.testing.worlds import a_pool

DAYS = 54.0
CHECKPOINT_EVERY_S, CHECKPOINT_TAKES_S = 600.0, 10.0
REQUEUE_S, RESTART_S = 30.0, 120.0
FOUND_AFTER_S, TREATED_WITHIN_S = 120.0, 3600.0
CRASHES, SILENCES, FALSE_VERDICTS = 8.0, 3.0, 3.0
"""Noise per day."""
APPLICATION: Sequence[Fault] = (bad_kernel, wild_pointer, stopped, killed)


@dataclass(slots=True)
class Training:
    """One job on all nodes but the spares: it restarts after each interruption."""

    world: World
    tasks: int
    on: set[NodeId] = field(default_factory=set)
    """The nodes it runs or starts on; empty while it waits."""
    dead: set[NodeId] = field(default_factory=set)
    """Nodes on which no job can run."""
    kept_s: float = 0.0
    interruptions: int = 0
    _hit: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, *, ends_s: float) -> None:
        """Train until the end."""
        clock = self.world.clock
        while clock.monotonic() < ends_s:
            while len(free := serving(self.world)) < self.tasks:
                await clock.sleep(5.0)
            self.on = set(free[: self.tasks])
            self._hit.clear()
            await clock.sleep(RESTART_S)
            # A job with a dead machine among its nodes fails as soon as all of them should answer.
            began_s = clock.monotonic()
            if not self.on & self.dead and not self._hit.is_set():
                await self._until_hit(ends_s)
                self.kept_s += kept_s(clock.monotonic() - began_s)
            self.on = set()
            if clock.monotonic() < ends_s:
                self.interruptions += 1
                await clock.sleep(REQUEUE_S)

    async def _until_hit(self, ends_s: float) -> None:
        end = asyncio.get_running_loop().call_at(ends_s, self._hit.set)
        await self._hit.wait()
        end.cancel()

    def hit(self, node: NodeId) -> None:
        """Interrupt the job if it runs on `node`."""
        if node in self.on:
            self._hit.set()

    def watch(self, committed: Committed) -> None:
        """Interrupt the job if one of its nodes is taken away."""
        for _, node in committed.moved:
            if node.retiring is not None or node.gone:
                self.hit(node.id)


def kept_s(ran_s: float) -> float:
    """Return how much of a run is kept: the work before its last checkpoint."""
    return ran_s // (CHECKPOINT_EVERY_S + CHECKPOINT_TAKES_S) * CHECKPOINT_EVERY_S


def kept_at_best_s(faults_s: Sequence[float], ends_s: float) -> float:
    """Return the work that is kept if a job never waits for nodes, and only faults interrupt it."""
    kept, queued_until_s, ready_s = 0.0, 0.0, RESTART_S
    for at_s in [*faults_s, ends_s]:
        if at_s < queued_until_s:
            continue
        kept += kept_s(max(at_s - ready_s, 0.0))
        queued_until_s = at_s + REQUEUE_S
        ready_s = queued_until_s + RESTART_S
    return kept


async def llama3(stage: Stage, days: float = DAYS) -> None:
    """Play the published failures and the noise, and measure what the job got done."""
    world, record, chance = stage.world, stage.record, stage.chance
    plan = failures(days, chance)
    spares = POOLS * SPARES
    job = Training(world, len(stage.nodes) - spares)
    world.store.subscribe(job.watch)
    began_s = world.clock.monotonic()
    training = world.tasks.create_task(job.run(ends_s=began_s + days * DAY_S))
    await world.clock.sleep(1.0)
    struck: dict[int, NodeId] = {}
    handled: set[int] = set()
    events: list[Event] = []
    for i, (at_s, cause) in enumerate(plan):
        events += [
            (at_s, partial(strike, stage, job, struck, i, cause)),
            (at_s + FOUND_AFTER_S, partial(note_found, stage, struck, handled, i)),
        ]
    await stage.play([*events, *noise(stage, days)], until_s=days * DAY_S)
    await training
    for i, (_, cause) in enumerate(plan):
        if cause.is_hardware and not cause.degrades_only:
            node = struck[i]
            late_s = record.treated_at.get(node, float("inf")) - record.broken_at[node]
            if late_s > TREATED_WITHIN_S:
                handled.discard(i)
    best_s = kept_at_best_s([at_s for at_s, _ in plan], days * DAY_S)
    record.measured |= {
        "faults": len(plan),
        "unhandled": len(plan) - len(handled),
        "ettr": round(job.kept_s / (days * DAY_S), 6),
        "ettr_bound": round(best_s / (days * DAY_S), 6),
        "ettr_distance": round((best_s - job.kept_s) / (days * DAY_S), 6),
        "interruptions": job.interruptions,
        "interruptions_per_fault": round(job.interruptions / max(len(plan), 1), 4),
    }


def strike(stage: Stage, job: Training, struck: dict[int, NodeId], i: int, cause: Cause) -> None:
    """Let one failure happen on a node of the job, and leave its marks on others."""
    world, chance = stage.world, stage.chance
    there = sorted(node for node in job.on or serving(world) if stage.is_there(node))
    node, *others = chance.sample(there, 1 + BYSTANDERS)
    struck[i] = node
    if cause.is_hardware:
        stage.record.broken_at[node] = stage.record.now_s()
        if not cause.degrades_only and not cause.announced:
            job.dead.add(node)
    if cause.announced:
        world.checkers.may_be_retired.add(node)
        notice = Notice(kind=NoticeKind.MAINTENANCE, reason="host maintenance in an hour")
        found = list(judge_notices([notice]))
    elif cause.fault is None:
        world.silence(node)
        found = []
    else:
        found = Rig(world, node).after(cause.fault, chance)
    for result in found:
        stage.show(node, result)
    for other in others:
        crash(stage, other, killed)
    job.hit(node)


def note_found(stage: Stage, struck: dict[int, NodeId], handled: set[int], i: int) -> None:
    """Record whether a failure has an incident, a condition or a consequence."""
    fleet, node = stage.world.fleet(), struck[i]
    known = fleet.nodes.get(node)
    seen = any(node in incident.nodes for incident in fleet.incidents.values())
    if seen or known is None or known.conditions or known.retiring:
        handled.add(i)


def noise(stage: Stage, days: float) -> list[Event]:
    """Return the events that should change nothing."""
    chance = stage.chance
    events: list[Event] = []
    for rate, happen in ((CRASHES, any_crash), (SILENCES, no_report), (FALSE_VERDICTS, false_ill)):
        at_s = chance.expovariate(rate / DAY_S)
        while at_s < days * DAY_S - TREATED_WITHIN_S:
            events += happen(stage, at_s)
            at_s += chance.expovariate(rate / DAY_S)
    return events


def any_crash(stage: Stage, at_s: float) -> list[Event]:
    """Let a program crash on a node."""
    node = stage.chance.choice(stage.nodes)
    return [(at_s, partial(crash, stage, node, stage.chance.choice(APPLICATION)))]


def crash(stage: Stage, node: NodeId, fault: Fault) -> None:
    """Let a program leave an XID in the kernel log of a sound machine."""
    if stage.is_there(node):
        for result in Rig(stage.world, node).after(fault, stage.chance):
            stage.show(node, result)


def no_report(stage: Stage, at_s: float) -> list[Event]:
    """Let a machine be silent for 200 seconds."""
    node = stage.chance.choice(stage.nodes)
    return [
        (at_s, partial(stage.cut_off, node)),
        (at_s + 200.0, partial(stage.reconnect, node)),
    ]


def false_ill(stage: Stage, at_s: float) -> list[Event]:
    """Let a check find a sound machine unhealthy for 60 seconds."""
    node, check = stage.chance.choice(stage.nodes), "infiniband"
    ill = CheckResult(check=check, health=Health.UNHEALTHY, reason="port 3 is down")
    well = CheckResult(check=check, health=Health.HEALTHY)
    return [
        (at_s, partial(stage.show, node, ill)),
        (at_s + 60.0, partial(stage.show, node, well)),
    ]


def job_pools(nodes: int) -> list[Pool]:
    """Return as many pools as the job spans, each with a spare."""
    size = nodes // POOLS
    return [
        a_pool(f"training-{i:02}", size=size, nodes_max=size + 4, spares=SPARES)
        for i in range(POOLS)
    ]
