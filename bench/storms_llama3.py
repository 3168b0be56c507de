"""The failures of Llama 3's training once more, with the noise of a real fleet.

419 faults in 54 days hit the machines of one job, as in `bench.llama3`. Besides, programs crash
with XIDs of their own, machines do not report for 200 seconds, and checks find sound machines
unhealthy for a minute. None of those is a reason to touch a machine.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

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
from bench.storms_record import Record
from bench.storms_stage import Event, Stage
from bench.storms_training import (
    DEAD_START,
    REMOVAL,
    WAITING,
    Account,
    Training,
    TrainingElsewhere,
    kept_at_best_s,
)
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.incident import Incident
from navarch.core.instance import Notice, NoticeKind
from navarch.core.pool import Pool
from navarch.health.checks.issues import judge_notices
from navarch.sim.world.world import World
from navarch.testing.worlds import a_pool

DAYS = 54.0
FOUND_AFTER_S, TREATED_WITHIN_S = 120.0, 3600.0
CRASHES, SILENCES, FALSE_VERDICTS = 8.0, 3.0, 3.0
"""Noise per day."""
APPLICATION: Sequence[Fault] = (bad_kernel, wild_pointer, stopped, killed)


@dataclass(slots=True, kw_only=True)
class Struck:
    """A failure that happened, and the fleet's record of its node just before."""

    cause: Cause
    node: NodeId
    at_s: float
    conditions: tuple[Condition, ...]
    incidents: Collection[Incident]
    checks: frozenset[str] = frozenset()
    """The checks that find it. A node that such a check has degraded already may show no more."""
    is_found: bool = False


async def llama3(
    stage: Stage, train: Callable[[World, int], Training] = TrainingElsewhere, days: float = DAYS
) -> None:
    """Play the published failures and the noise, and measure what the job got done."""
    world = stage.world
    plan = failures(days, stage.chance)
    job = train(world, len(stage.nodes) - POOLS * SPARES)
    training = world.tasks.create_task(job.run(ends_s=world.clock.monotonic() + days * DAY_S))
    await world.clock.sleep(1.0)
    struck: dict[int, Struck] = {}
    events: list[Event] = []
    for i, (at_s, cause) in enumerate(plan):
        events += [
            (at_s, partial(strike, stage, job, struck, i, cause)),
            (at_s + FOUND_AFTER_S, partial(note_found, stage, struck, i)),
        ]
    await stage.play([*events, *noise(stage, days)], until_s=days * DAY_S)
    await training
    handled = sum(is_handled(each, stage.record) for each in struck.values())
    best_s = kept_at_best_s([at_s for at_s, _ in plan], days * DAY_S, requeue_s=job.requeue_s)
    stage.record.measured |= {"faults": len(plan), "unhandled": len(plan) - handled}
    stage.record.measured |= shown(job.account, best_s, faults=len(plan), span_s=days * DAY_S)


def is_handled(struck: Struck, record: Record) -> bool:
    """Return whether a failure was found, and its machine treated in time if it must be."""
    if not struck.cause.is_hardware or struck.cause.degrades_only:
        return struck.is_found
    treated_s = record.treated_at.get(struck.node, inf)
    return struck.is_found and treated_s - struck.at_s <= TREATED_WITHIN_S


def shown(account: Account, best_s: float, *, faults: int, span_s: float) -> dict[str, float]:
    """Return the figures of a job, and what the distance to the best case is made of."""
    interruptions = account.interruptions.total()
    figures = {
        "ettr": account.kept_s / span_s,
        "ettr_bound": best_s / span_s,
        "ettr_distance": (best_s - account.kept_s) / span_s,
        "interruptions": interruptions,
        "interruptions_per_fault": interruptions / max(faults, 1),
    }
    for cause in (DEAD_START, REMOVAL):
        figures[f"interruptions by {cause}"] = account.interruptions[cause]
    for cause in (WAITING, DEAD_START, REMOVAL):
        figures[f"ettr lost to {cause}"] = account.avoidable_s[cause] / span_s
    # The rest is chance: where in the interval between two checkpoints an interruption falls.
    rest_s = best_s - account.kept_s - sum(account.avoidable_s.values())
    figures["ettr lost between checkpoints"] = rest_s / span_s
    return {name: round(value, 6) for name, value in figures.items()}


def strike(stage: Stage, job: Training, struck: dict[int, Struck], i: int, cause: Cause) -> None:
    """Let one failure happen on a node of the job, and leave its marks on others."""
    world, chance = stage.world, stage.chance
    there = sorted(node for node in set(job.on or serving(world)) if stage.is_there(node))
    node, *others = chance.sample(there, 1 + BYSTANDERS)
    struck[i] = Struck(
        cause=cause,
        node=node,
        at_s=stage.record.now_s(),
        conditions=world.fleet().nodes[node].conditions,
        incidents=incidents_of(world, node),
    )
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
    struck[i].checks = frozenset(result.check for result in found)
    for result in found:
        stage.show(node, result)
    for other in others:
        crash(stage, other, killed)
    job.hit(node)


def note_found(stage: Stage, struck: dict[int, Struck], i: int) -> None:
    """Record whether a failure has a new incident or condition, or a consequence."""
    world, failure = stage.world, struck[i]
    known = world.fleet().nodes.get(failure.node)
    failure.is_found = (
        known is None
        or known.retiring is not None
        or known.conditions != failure.conditions
        or any(condition.check in failure.checks for condition in known.conditions)
        or incidents_of(world, failure.node) != failure.incidents
    )


def incidents_of(world: World, node: NodeId) -> Collection[Incident]:
    """Return the incidents that a node is part of."""
    return [each for each in world.fleet().incidents.values() if node in each.nodes]


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
