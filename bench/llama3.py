"""The failures of Llama 3's training, in 54 days on 2,048 nodes: detections and false cordons.

usage: python -m bench.llama3 [--days 54] [--nodes 2048] [--seed 1]

The published 419 unexpected interruptions (148 faulty GPUs, 72 of their memories, 54 bugs, ...)
come at random times to random nodes, as the agent's own checks find them on hardware with that
fault (`bench.llama3_evidence`), as machines that fall silent, or as maintenance that the provider
announces. Each ends the one job that runs on all nodes, and its processes then leave XID 45 on
other nodes. The real control plane runs in virtual time.

`found`: the fault has an incident, a condition or a notice. `not_acted_on`: machines with a fault
that is judged unhealthy, and that were not replaced within an hour. `left_in_service`: machines
with a fault that only degrades them by the default policy: a cable, a port, a PCIe lane.
`false_cordons`: nodes that were cordoned, retired or held although nothing but a program was at
fault. `job_goodput`: the share of the time in which the job made progress that it
kept, by how often it writes checkpoints; to start again on enough nodes takes `restart_min`, and
to write a checkpoint `checkpoint_s`, during which no work is done. `ettr_bound` is the same if each
failure cost no more than a restart and half an interval.
"""

import argparse
import json
import resource
import time
from dataclasses import dataclass, field
from random import Random

import structlog

from bench.llama3_evidence import (
    Fault,
    Rig,
    adapter,
    bad_kernel,
    cable,
    double_bit,
    firmware,
    heat,
    killed,
    lanes,
    main_memory,
    off_the_bus,
    read_only,
    stopped,
    uncontained,
    wild_pointer,
    wrong_words,
)
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId
from navarch.core.instance import Notice, NoticeKind
from navarch.health.checks.issues import judge_notices
from navarch.ports.store import Committed
from navarch.sim.figures.interruptions import best_ettr
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

POOLS = 32
"""The job spans so many pools of equal size: as many clusters of a fabric."""
DAY_S = 86_400.0
SPARES = 1
"""More than each pool needs, so that the job need not wait for a machine to boot."""
CHECKPOINTS = (5, 10, 30, 60)
BYSTANDERS = 8
"""On so many other nodes each failure leaves the marks of the processes it killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One row of the published table, and how it shows."""

    name: str
    count: int
    fault: Fault | None = None
    """None for a machine that falls silent."""
    announced: bool = False
    is_hardware: bool = True
    degrades_only: bool = False
    """Whether the checks call a machine with it worse, and not unfit."""


CAUSES = (
    Cause(name="faulty GPU", count=148, fault=off_the_bus),
    Cause(name="HBM3 memory", count=72, fault=uncontained),
    Cause(name="software bug", count=54, fault=wild_pointer, is_hardware=False),
    Cause(name="network switch or cable", count=35, fault=cable, degrades_only=True),
    Cause(name="host maintenance", count=32, announced=True),
    Cause(name="GPU SRAM", count=19, fault=double_bit),
    Cause(name="GSP", count=17, fault=firmware),
    Cause(name="NIC", count=7, fault=adapter, degrades_only=True),
    Cause(name="NCCL watchdog timeout", count=7, fault=stopped, is_hardware=False),
    Cause(name="silent data corruption", count=6, fault=wrong_words),
    Cause(name="GPU thermal interface and sensor", count=6, fault=heat),
    Cause(name="SSD", count=3, fault=read_only),
    Cause(name="power supply", count=3),
    Cause(name="server chassis", count=2),
    Cause(name="I/O board", count=2, fault=lanes, degrades_only=True),
    Cause(name="dependency", count=2, fault=bad_kernel, is_hardware=False),
    Cause(name="CPU", count=2),
    Cause(name="system memory", count=2, fault=main_memory),
)
assert sum(cause.count for cause in CAUSES) == 419


@dataclass(slots=True)
class Tally:
    """What came of the failures."""

    found: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    not_acted_on: list[str] = field(default_factory=list)
    left_in_service: list[str] = field(default_factory=list)
    broken: set[NodeId] = field(default_factory=set)
    reaction_s: list[float] = field(default_factory=list)
    """From the fault to the decision to replace the node."""
    lost_s: float = 0.0
    outages_s: list[float] = field(default_factory=list)
    taken_out: set[NodeId] = field(default_factory=set)
    """Every node that was ever cordoned, retired or held."""
    disturbed: set[NodeId] = field(default_factory=set)
    """Bystanders that did not go on serving."""

    def watch(self, committed: Committed) -> None:
        """Record the nodes taken out of service, also those deleted before the end."""
        for node in committed.change.nodes:
            if node.cordoned or node.retiring or node.held:
                self.taken_out.add(node.id)

    @property
    def false_cordons(self) -> list[NodeId]:
        """Return the nodes that were taken out although nothing was broken."""
        return sorted((self.taken_out | self.disturbed) - self.broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=54.0)
    parser.add_argument("--nodes", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restart-min", type=float, default=5.0)
    parser.add_argument("--checkpoint-s", type=float, default=30.0)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(json.dumps(play(**vars(options)), indent=2))


def play(
    *,
    days: float = 54.0,
    nodes: int = 2048,
    seed: int = 1,
    restart_min: float = 5.0,
    checkpoint_s: float = 30.0,
) -> dict[str, object]:
    """Return the figures of one run. Fewer days see fewer failures, at the same rate."""
    tally, chance = Tally(), Random(seed)
    plan = failures(days, chance)

    async def story(world: World) -> None:
        world.store.subscribe(tally.watch)
        await world.until(
            lambda: len(serving(world)) >= nodes + POOLS * SPARES, within_s=7200, step_s=30.0
        )
        began = world.clock.monotonic()
        for at_s, cause in plan:
            await world.clock.sleep(max(began + at_s - world.clock.monotonic(), 0.0))
            await strike(world, cause, tally, chance, nodes)
        tally.lost_s += len(plan) * restart_min * 60
        await world.clock.sleep(max(began + days * DAY_S - world.clock.monotonic(), 0.0))

    began, cpu = time.monotonic(), time.process_time()
    size = nodes // POOLS
    pools = [
        a_pool(f"training-{i:02}", size=size, nodes_max=size + 4, spares=SPARES)
        for i in range(POOLS)
    ]
    simulate(story, seed=seed, pools=pools, computed=True)
    total_s = days * DAY_S
    reactions = sorted(tally.reaction_s)
    return {
        "days": days,
        "nodes": nodes,
        "failures": len(plan),
        "found": sum(tally.found.values()),
        "found_by_cause": tally.found,
        "missed": tally.missed,
        "broken_machines": len(tally.broken),
        "not_acted_on": tally.not_acted_on,
        "left_in_service": len(tally.left_in_service),
        "false_cordons": tally.false_cordons,
        "reaction_s": {
            "median": round(reactions[len(reactions) // 2], 1) if reactions else None,
            "max": round(reactions[-1], 1) if reactions else None,
        },
        "job_goodput_by_checkpoint_minutes": {
            str(minutes): round(
                (1 - (tally.lost_s + redone_s(plan, minutes)) / total_s)
                / (1 + checkpoint_s / (minutes * 60)),
                4,
            )
            for minutes in CHECKPOINTS
        },
        "ettr_bound_by_checkpoint_minutes": {
            str(minutes): round(
                best_ettr(
                    faults=len(plan),
                    span_s=total_s,
                    restart_s=restart_min * 60,
                    every_s=minutes * 60.0,
                    takes_s=checkpoint_s,
                ),
                4,
            )
            for minutes in CHECKPOINTS
        },
        "restart_min": restart_min,
        "checkpoint_s": checkpoint_s,
        "waited_for_nodes_s_max": round(max(tally.outages_s, default=0.0), 1),
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def redone_s(plan: list[tuple[float, Cause]], minutes: int) -> float:
    """Return for how long the job does again what it had done since its last checkpoint."""
    return sum(at_s % (minutes * 60) for at_s, _ in plan)


def serving(world: World) -> list[NodeId]:
    """Return the nodes that take work, of all pools."""
    return [node.id for node in world.fleet().nodes.values() if node.serving]


def failures(days: float, chance: Random) -> list[tuple[float, Cause]]:
    """Return the moments of all failures and their causes, in order."""
    drawn = [
        (chance.uniform(0, 54.0 * DAY_S), cause) for cause in CAUSES for _ in range(cause.count)
    ]
    kept = [(at_s, cause) for at_s, cause in drawn if at_s < days * DAY_S]
    return sorted(kept, key=lambda each: each[0])


async def strike(world: World, cause: Cause, tally: Tally, chance: Random, nodes: int) -> None:
    """Let one failure happen, and watch until the job could run again."""
    began = world.clock.monotonic()
    node, *others = chance.sample(serving(world), 1 + BYSTANDERS)
    for other in others:
        tell(world, other, Rig(world, other).after(killed, chance))
    if cause.is_hardware:
        tally.broken.add(node)
    if cause.announced:
        notice = Notice(kind=NoticeKind.MAINTENANCE, reason="host maintenance in an hour")
        world.checkers.may_be_retired.add(node)
        tell(world, node, list(judge_notices([notice])))
    elif cause.fault is None:
        world.silence(node)
    else:
        evidence = Rig(world, node).after(cause.fault, chance)
        tell(world, node, evidence)
    if cause.is_hardware and not cause.degrades_only:
        await until_retired(world, node, cause, tally, began)
    else:
        await world.clock.sleep(5.0)
        note_found(world, node, cause, tally)
        if cause.degrades_only and world.fleet().nodes[node].retiring is None:
            tally.left_in_service.append(f"{cause.name} on {node}")
    while len(serving(world)) < nodes:
        await world.clock.sleep(5.0)
    out_s = world.clock.monotonic() - began
    tally.outages_s.append(out_s)
    tally.lost_s += out_s
    tally.disturbed |= {x for x in others if not world.fleet().nodes[x].serving}


async def until_retired(
    world: World, node: NodeId, cause: Cause, tally: Tally, began: float
) -> None:
    while world.fleet().nodes[node].retiring is None:
        if world.clock.monotonic() > began + 3600:
            tally.not_acted_on.append(f"{cause.name} on {node}")
            break
        await world.clock.sleep(1.0)
    else:
        tally.reaction_s.append(world.clock.monotonic() - began)
    note_found(world, node, cause, tally)


def note_found(world: World, node: NodeId, cause: Cause, tally: Tally) -> None:
    fleet = world.fleet()
    known = fleet.nodes[node]
    seen = any(node in incident.nodes for incident in fleet.incidents.values())
    if seen or known.conditions or known.retiring:
        tally.found[cause.name] = tally.found.get(cause.name, 0) + 1
    else:
        tally.missed.append(f"{cause.name} on {node}")


def tell(world: World, node: NodeId, results: list[CheckResult]) -> None:
    agent = world.agent(node)
    agent.results |= {result.check: result for result in results}
    agent.report_now()


if __name__ == "__main__":
    main()
