"""The storms: silence, a falsely fatal check, bad drivers, and racks that really fail.

Each story draws its nodes, moments and order from the seed. It records the truth together with what
it does to machines.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random

from bench.llama3_evidence import (
    Fault,
    Rig,
    double_bit,
    firmware,
    off_the_bus,
    uncontained,
    wrong_words,
)
from bench.storms_llama3 import job_pools, llama3
from bench.storms_record import CommonCause
from bench.storms_stage import FEED, NODES_PER_RACK, RACK, Event, Stage, one_pool, six_pools
from bench.storms_training import OwnTraining
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.pool import Pool
from navarch.sim.runner.jobs import SimulatedJobs
from navarch.sim.world.effects import SimWorkloads

MINUTE_S, HOUR_S = 60.0, 3600.0
FAULTS: Sequence[Fault] = (off_the_bus, uncontained, double_bit, wrong_words)
"""True faults, one of each in every storm that has any."""


class Figure(StrEnum):
    """What a storm is judged by."""

    NOTHING_SOUND = "no sound machine is destroyed"
    BUDGET = "at most the budget is destroyed"
    PROVEN = "every death that only other nodes see is treated within 20 minutes"
    TREATED = "every true fault is treated within 10 minutes of the evidence"
    NAMED = "every cause is named within 15 minutes of the third node"
    EXPLAINED = "every machine is replaced, or held with the rack or feed named"
    NO_FALSE_NAME = "no change that broke nothing is named"
    HANDLED = "every fault is handled"
    ETTR = "the effective training time ratio is within 0.002 of the bound"
    INTERRUPTIONS = "at most 1.05 interruptions per fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One kind of storm."""

    play: Callable[[Stage], Awaitable[None]]
    figures: tuple[Figure, ...]
    pools: Callable[[int], list[Pool]] = one_pool
    per_rack: int = NODES_PER_RACK
    nodes: int | None = None
    """The size at which it is played; None: all sizes."""
    seeds_max: int | None = None
    """How many seeds are enough, for a long story."""
    is_checked: bool = True
    """Whether the cloud has status checks. Without them, nodes probe each other."""
    workloads: type[SimWorkloads] = SimWorkloads
    """The workload system of the fleet."""


# Silence


async def silence(stage: Stage, share: float | str) -> None:
    """Cut nodes off for 3, 10 and 60 minutes, in random order; one of them may really be dead.

    The status check of a dead machine fails, and its provider may list it as ended.
    """
    chance = stage.chance
    for minutes in chance.sample((3, 10, 60), 3):
        present = [node for node in stage.nodes if stage.is_there(node)]
        unheard = choose_silent(stage, present, share)
        dead = chance.choice(unheard) if chance.random() < 0.5 else None
        within_s = chance.choice((0.0, chance.uniform(1.0, MINUTE_S)))
        events: list[Event] = []
        for node in unheard:
            if node == dead:
                at_s = chance.uniform(0.0, within_s)
                events.append((at_s, partial(stage.kill, node, must_be_found=True)))
                if chance.random() < 0.5:
                    ended_s = at_s + chance.uniform(0.0, minutes * MINUTE_S)
                    events.append((ended_s, partial(stage.end, node)))
                continue
            back_s = minutes * MINUTE_S + chance.uniform(0.0, 30.0)
            events += [
                (chance.uniform(0.0, within_s), partial(stage.cut_off, node)),
                (back_s, partial(stage.reconnect, node)),
            ]
        await stage.play(events, until_s=minutes * MINUTE_S + chance.uniform(1.0, 3.0) * HOUR_S)


def choose_silent(stage: Stage, present: list[NodeId], share: float | str) -> list[NodeId]:
    """Return a zone's worth of nodes, or a share or number of all of them."""
    if share == "zone":
        letters = stage.chance.choice(("ab", "cd", "ef"))
        return [node for node in present if node.rpartition("-")[0][-1] in letters]
    assert isinstance(share, float), share
    count = int(share) if share > 1 else round(share * len(present))
    return stage.chance.sample(present, count)


async def cut_link(stage: Stage, share: float) -> None:
    """Cut nodes off from the control plane for hours; two others die meanwhile.

    Only other nodes can tell which is which. The two are behind different power feeds: of two that
    share one, neither is proven dead.
    """
    chance = stage.chance
    unheard = choose_silent(stage, stage.nodes, share)
    hours = chance.uniform(2.0, 4.0)
    reporting = [node for node in stage.nodes if node not in unheard]
    by_feed = {stage.labels(node)[FEED]: node for node in reporting}
    dead = chance.sample(sorted(by_feed.values()), 2)
    events: list[Event] = [(chance.uniform(0.0, 30.0), partial(stage.cut_off, x)) for x in unheard]
    events += [(hours * HOUR_S, partial(stage.reconnect, node)) for node in unheard]
    for node in dead:
        at_s = chance.uniform(0.0, HOUR_S)
        events.append((at_s, partial(stage.kill, node, must_be_found=True)))
    await stage.play(events, until_s=(hours + 1.0) * HOUR_S)


async def dead_switch(stage: Stage) -> None:
    """Let the switch of a rack die, or a part of it, and be replaced after hours.

    Nothing reaches the machines behind it, and all of them work.
    """
    chance = stage.chance
    behind = stage.in_rack(rack_of(stage))
    some = chance.sample(behind, chance.choice((2, len(behind) // 2, len(behind))))
    repaired_s = chance.uniform(0.5, 3.0) * HOUR_S
    # Some switches are mended port by port.
    spread_s = chance.choice((5 * MINUTE_S, HOUR_S))
    events: list[Event] = []
    for node in some:
        back_s = repaired_s + chance.uniform(0.0, spread_s)
        events.append((chance.uniform(0.0, 10.0), partial(stage.isolate, node)))
        events.append((back_s, partial(stage.reconnect, node)))
    await stage.play(events, until_s=4 * HOUR_S)


async def half_switch(stage: Stage) -> None:
    """Let a few ports of a switch fail. One works again within minutes, the others after hours.

    The first one may fail again and again until the switch is mended. All machines behind it work.
    Elsewhere, one dies.
    """
    chance = stage.chance
    behind = stage.in_rack(rack_of(stage))
    some = chance.sample(behind, chance.choice((2, 2, 3)))
    feed = stage.labels(some[0])[FEED]
    dead = chance.choice([node for node in stage.nodes if stage.labels(node)[FEED] != feed])
    stopped_within_s = chance.choice((5.0, 5 * MINUTE_S))
    events: list[Event] = [
        (chance.uniform(0.0, stopped_within_s), partial(stage.isolate, node)) for node in some
    ]
    mended_s = 0.0
    for node in some[1:]:
        back_s = chance.uniform(0.5, 8.0) * HOUR_S
        events.append((back_s, partial(stage.reconnect, node)))
        mended_s = max(mended_s, back_s)
    at_s = stopped_within_s
    for _ in range(chance.choice((1, 1, 5, 10))):
        back_s = at_s + chance.uniform(2.0, 30.0) * MINUTE_S
        events.append((min(back_s, mended_s), partial(stage.reconnect, some[0])))
        at_s = back_s + chance.uniform(2.0, 30.0) * MINUTE_S
        if at_s >= mended_s:
            break
        events.append((at_s, partial(stage.isolate, some[0])))
    events.append((mended_s, partial(stage.reconnect, some[0])))
    died_s = chance.uniform(0.0, 2 * HOUR_S)
    events.append((died_s, partial(stage.kill, dead, must_be_found=True)))
    await stage.play(events, until_s=9 * HOUR_S)


# A falsely fatal check


async def false_check(stage: Stage, share: float, per_rack: int | None) -> None:
    """Let a check fail on sound machines, and break four others.

    In half of the storms it fails as often on the machines that replace them.
    """
    chance = stage.chance
    check = chance.choice(("nvlink", "row-remap", "pcie-width", "power-draw", "ib-counters"))
    result = CheckResult(
        check=check, health=Health.UNHEALTHY, reason=f"{check}: value out of range", fatal=True
    )
    affected = pick_by_rack(stage, share, per_rack)
    cause = CommonCause(names=(check,))
    stage.record.causes.append(cause)
    spread_s = chance.choice((0.0, chance.uniform(MINUTE_S, 10 * MINUTE_S)))
    events: list[Event] = [
        (chance.uniform(0.0, spread_s), partial(stage.show, node, result, cause))
        for node in affected
    ]
    events += true_faults(stage, set(affected), until_s=HOUR_S)
    if chance.random() < 0.5:
        stage.on_new_node(partial(stage.show, result=result, cause=cause), share=share)
    await stage.play(events, until_s=6 * HOUR_S)


def pick_by_rack(stage: Stage, share: float, per_rack: int | None) -> list[NodeId]:
    """Return a share of all nodes: anywhere, or `per_rack` in each of as few racks as it takes."""
    count = round(share * len(stage.nodes))
    if per_rack is None:
        return stage.chance.sample(stage.nodes, count)
    racks = sorted({stage.labels(node)[RACK] for node in stage.nodes})
    stage.chance.shuffle(racks)
    found: list[NodeId] = []
    for rack in racks:
        inside = stage.in_rack(rack)
        found += stage.chance.sample(inside, min(per_rack, len(inside), count - len(found)))
    return found


def true_faults(stage: Stage, others: set[NodeId], *, until_s: float) -> list[Event]:
    """Return the events that break one machine in each way, at nodes that are not in `others`."""
    free = [node for node in stage.nodes if node not in others]
    victims = stage.chance.sample(free, len(FAULTS))
    return [
        (stage.chance.uniform(0.0, until_s), partial(stage.break_machine, node, fault))
        for node, fault in zip(victims, FAULTS, strict=True)
    ]


# Drivers


async def two_drivers(stage: Stage) -> None:
    """Install two bad drivers within an hour, each on another part of the fleet."""
    chance = stage.chance
    faults = chance.choice(((firmware, firmware), (firmware, crashed), (crashed, firmware)))
    size = len(stage.nodes)
    first = round(chance.uniform(0.15, 0.35) * size)
    second = round(chance.uniform(0.15, 0.35) * size)
    groups = (stage.nodes[:first], stage.nodes[first : first + second])
    drivers = chance.sample(("570.86.10", "575.51.03", "560.35.05", "580.65.06"), 2)
    events = true_faults(stage, set(stage.nodes[: first + second]), until_s=1.5 * HOUR_S)
    for group, driver, fault in zip(groups, drivers, faults, strict=True):
        cause = CommonCause(names=(driver,))
        stage.record.causes.append(cause)
        share_shown = chance.uniform(0.6, 1.0)
        for node in group:
            at_s = chance.uniform(0.0, HOUR_S)
            events += stage.upgrade(node, driver, at_s)
            if chance.random() < share_shown:
                ill_s = at_s + chance.uniform(10.0, 20 * MINUTE_S)
                events.append((ill_s, partial(stage.find, node, fault, cause)))
    await stage.play(events, until_s=6 * HOUR_S)


async def slow_driver(stage: Stage) -> None:
    """Install a bad driver on one node per 20 minutes, on 70 nodes at most."""
    chance = stage.chance
    driver = chance.choice(("570.86.10", "575.51.03", "560.35.05"))
    cause = CommonCause(names=(driver,))
    stage.record.causes.append(cause)
    group = stage.nodes[:70]
    events = true_faults(stage, set(group), until_s=24 * HOUR_S)
    fault = chance.choice((firmware, crashed))
    for turn, node in enumerate(group):
        at_s = (20 * turn + chance.uniform(0.0, 10.0)) * MINUTE_S
        events += stage.upgrade(node, driver, at_s)
        ill_s = at_s + chance.uniform(10.0, 15 * MINUTE_S)
        events.append((ill_s, partial(stage.find, node, fault, cause)))
    await stage.play(events, until_s=25 * HOUR_S)


def crashed(rig: Rig, chance: Random) -> None:
    """XID 120: the GPU's own processor crashed."""
    rig.gpus.xid(120, index=chance.randrange(8), text="GSP task timeout @ pc:0x1e5ab54")


# Racks


async def dead_rack(stage: Stage) -> None:
    """Let a rack die within a minute, an hour after a good rollout."""
    rack = rack_of(stage)
    victims = stage.in_rack(rack)
    cause = CommonCause(names=(rack,))
    stage.record.causes.append(cause)
    await good_rollout(stage, set(victims))
    events: list[Event] = [
        (stage.chance.uniform(0.0, MINUTE_S), partial(stage.kill, node, cause)) for node in victims
    ]
    await stage.play(events, until_s=4 * HOUR_S)


async def hot_rack(stage: Stage) -> None:
    """Let the cooling of a rack fail: GPUs get warm, then too hot, and leave the bus in the end."""
    chance = stage.chance
    rack = rack_of(stage)
    victims = stage.in_rack(rack)
    cause = CommonCause(names=(rack,))
    stage.record.causes.append(cause)
    await good_rollout(stage, set(victims))
    events: list[Event] = []
    for node in victims:
        warm_s = chance.uniform(0.0, 20 * MINUTE_S)
        hot_s = warm_s + chance.uniform(5 * MINUTE_S, 40 * MINUTE_S)
        out_s = hot_s + chance.uniform(5 * MINUTE_S, 30 * MINUTE_S)
        events.append((warm_s, partial(stage.find, node, warm)))
        events.append((hot_s, partial(stage.find, node, hot, cause, breaks=True)))
        events.append((out_s, partial(stage.find, node, off_the_bus)))
    await stage.play(events, until_s=5 * HOUR_S)


def warm(rig: Rig, chance: Random) -> None:
    """A GPU is at a temperature of which a check warns."""
    rig.gpus.heat(chance.uniform(85.5, 90.0), index=chance.randrange(8))


def hot(rig: Rig, chance: Random) -> None:
    """A GPU is above its limit."""
    rig.gpus.heat(chance.uniform(93.0, 98.0), index=chance.randrange(8))


async def power_feed(stage: Stage) -> None:
    """Let a feed fail: half of the machines in the racks behind it lose power."""
    chance = stage.chance
    feed = stage.labels(chance.choice(stage.nodes))[FEED]
    behind = [node for node in stage.nodes if stage.labels(node)[FEED] == feed]
    victims = chance.sample(behind, len(behind) // 2)
    racks = {stage.labels(node)[RACK] for node in victims}
    cause = CommonCause(names=(feed, *sorted(racks)))
    stage.record.causes.append(cause)
    await good_rollout(stage, set(victims))
    events: list[Event] = [
        (chance.uniform(0.0, 10.0), partial(stage.kill, node, cause)) for node in victims
    ]
    await stage.play(events, until_s=4 * HOUR_S)


def rack_of(stage: Stage) -> str:
    """Return a rack that is full."""
    racks = [stage.labels(node)[RACK] for node in stage.nodes]
    return stage.chance.choice([rack for rack in racks if racks.count(rack) == stage.per_rack])


async def good_rollout(stage: Stage, victims: set[NodeId]) -> None:
    """Install a sound driver, on all nodes or on half and the victims; wait an hour."""
    chance = stage.chance
    driver = chance.choice(("570.124.06", "575.57.08", "565.57.01"))
    stage.record.innocent.append(CommonCause(names=(driver,)))
    everywhere = chance.random() < 0.5
    took_s = chance.uniform(20.0, 60.0) * MINUTE_S
    events: list[Event] = []
    for node in stage.nodes:
        if everywhere or node in victims or chance.random() < 0.5:
            events += stage.upgrade(node, driver, chance.uniform(5 * MINUTE_S, took_s))
    await stage.play(events, until_s=took_s + HOUR_S)


COSTLY = (Figure.BUDGET, Figure.NAMED, Figure.TREATED)
REAL = (Figure.EXPLAINED, Figure.NO_FALSE_NAME, Figure.BUDGET, Figure.NOTHING_SOUND)
QUIET = (Figure.NOTHING_SOUND, Figure.TREATED)
FOUND = (Figure.NOTHING_SOUND, Figure.PROVEN)

TRAINS = (Figure.HANDLED, Figure.NOTHING_SOUND, Figure.ETTR, Figure.INTERRUPTIONS)
LLAMA3_NODES = 2048

STORIES: dict[str, Story] = {
    "silence-all": Story(play=partial(silence, share=1.0), figures=QUIET),
    "silence-zone": Story(play=partial(silence, share="zone"), figures=QUIET, pools=six_pools),
    "silence-30%": Story(play=partial(silence, share=0.3), figures=QUIET),
    "silence-10%": Story(play=partial(silence, share=0.1), figures=QUIET),
    "silence-3%": Story(play=partial(silence, share=0.03), figures=QUIET),
    "silence-2": Story(play=partial(silence, share=2.0), figures=QUIET),
    "cut-link-10%": Story(play=partial(cut_link, share=0.1), figures=FOUND, is_checked=False),
    "cut-link-40%": Story(play=partial(cut_link, share=0.4), figures=FOUND, is_checked=False),
    "dead-switch": Story(play=dead_switch, figures=(Figure.NOTHING_SOUND,), is_checked=False),
    "half-switch": Story(play=half_switch, figures=FOUND, is_checked=False),
    "check-213": Story(play=partial(false_check, share=213 / 288, per_rack=None), figures=COSTLY),
    "check-77": Story(play=partial(false_check, share=77 / 288, per_rack=7), figures=COSTLY),
    "two-drivers": Story(play=two_drivers, figures=COSTLY),
    "slow-driver": Story(play=slow_driver, figures=COSTLY),
    "rack-18": Story(play=dead_rack, figures=REAL),
    "rack-36": Story(play=dead_rack, figures=REAL, per_rack=36),
    "hot-rack": Story(play=hot_rack, figures=REAL),
    "power-feed": Story(play=power_feed, figures=REAL),
    "llama3": Story(play=llama3, figures=TRAINS, pools=job_pools, nodes=LLAMA3_NODES, seeds_max=3),
    "llama3-own-jobs": Story(
        play=partial(llama3, train=OwnTraining),
        figures=TRAINS,
        pools=job_pools,
        nodes=LLAMA3_NODES,
        seeds_max=3,
        workloads=SimulatedJobs,
    ),
}


def chance_of(name: str, nodes: int, seed: int) -> Random:
    """Return the source of chance of one run."""
    return Random(f"storm/{name}/{nodes}/{seed}")
