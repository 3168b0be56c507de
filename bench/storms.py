"""Storms in which a control plane could destroy sound machines, and what this one does.

usage: python -m bench.storms [--only STORY ...] [--nodes 288 1000] [--seeds 20]
           [--first-seed 5000] [--jobs 1]

Each story runs the product in virtual time and knows which machines are truly broken. The output
has for every run what was destroyed, how soon true faults were treated, and when the cause was
named in which words. The key `figures` has a verdict for each story, size and figure with the
worst seeds; the exit status is 1 if one is not met.

A seed of all stories takes about one minute of CPU time with 288 nodes, and five with 1,000.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial

import structlog

from bench.storms_record import Record
from bench.storms_stage import OLD, Stage, place
from bench.storms_stories import STORIES, Figure, Story, chance_of
from navarch.sim.world.world import World, simulate

TREATED_WITHIN_S = 600.0
PROVEN_WITHIN_S = 1200.0
NAMED_WITHIN_S = 900.0
ETTR_DISTANCE_MAX = 0.002
INTERRUPTIONS_MAX = 1.05
WORST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one storm."""

    story: str
    nodes: int
    seed: int
    error: str = ""
    """Why the run ended early: a law that was broken."""
    budget: int = 0
    destroyed: int = 0
    destroyed_in_worst_hour: int = 0
    sound_destroyed: int = 0
    surplus: int = 0
    sound_acted_on: dict[str, int]
    """Sound nodes by what was done to them."""
    true_faults: int = 0
    treated_after_s: list[float | None]
    """For each true fault, how long after the evidence it was treated; None for never."""
    named_after_s: list[float | None]
    """For each common cause, how long after the third affected node it was named."""
    named_as: list[str]
    falsely_named: list[str]
    unexplained: int = 0
    affected: int = 0
    measured: dict[str, float]
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether all runs of a story at one size meet a figure."""

    story: str
    nodes: int
    figure: str
    target: float
    measured: float | None
    """The worst run; None if what was to happen never did."""
    met: bool
    runs_met: int
    runs: int
    worst_seeds: list[int]


def main() -> None:
    given = _parser().parse_args()
    names = given.only or list(STORIES)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    wanted = list(dict.fromkeys(_wanted(names, given.nodes, seeds)))
    runs = list(_play_all(wanted, given.jobs))
    groups = dict.fromkeys((run.story, run.nodes) for run in runs)
    verdicts = [
        verdict
        for group in groups
        for verdict in judge([run for run in runs if (run.story, run.nodes) == group])
    ]
    shown = {"figures": [asdict(x) for x in verdicts], "runs": [asdict(run) for run in runs]}
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    sys.exit(not all(verdict.met for verdict in verdicts))


def _wanted(
    names: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """Yield the runs: story, size and seed."""
    for size in sizes:
        for name in names:
            story = STORIES[name]
            for seed in seeds[: story.seeds_max]:
                yield name, story.nodes or size, seed


def _play_all(wanted: Sequence[tuple[str, int, int]], jobs: int) -> Iterator[Run]:
    if jobs == 1:
        for each in wanted:
            yield _shown(play(*each))
        return
    with ProcessPoolExecutor(jobs) as processes:
        for run in processes.map(play, *zip(*wanted, strict=True)):
            yield _shown(run)


def _shown(run: Run) -> Run:
    faults = [x for x in run.treated_after_s if x is not None]
    named = ", ".join("never" if x is None else f"{x:.0f} s" for x in run.named_after_s)
    line = (
        f"{run.story} {run.nodes} seed {run.seed}: destroyed {run.destroyed} of {run.budget}, "
        f"{run.sound_destroyed} sound; treated {len(faults)} of {run.true_faults} "
        f"in {max(faults, default=0):.0f} s; named {named or '-'}; "
        f"unexplained {run.unexplained} of {run.affected}; {run.cpu_s:.1f} s"
    )
    print(f"{line}; {run.error}" if run.error else line, file=sys.stderr, flush=True)
    return run


def play(name: str, nodes: int, seed: int) -> Run:
    """Return what came of one storm."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    story, began = STORIES[name], time.process_time()
    records: list[Record] = []
    error = ""

    async def whole(world: World) -> None:
        pools = list(world.fleet().pools)
        size = sum(pool.target for pool in world.fleet().pools.values())
        await world.until(
            lambda: sum(len(world.serving(pool)) for pool in pools) == size,
            within_s=7200,
            step_s=30.0,
        )
        chance = chance_of(name, nodes, seed)
        names = [node for pool in pools for node in world.serving(pool)]
        chance.shuffle(names)
        record = Record(world.clock, size)
        records.append(record)
        world.store.subscribe(record.watch)
        await world.clock.sleep(chance.uniform(1.0, 4.0) * 3600)
        await story.play(
            Stage(world=world, chance=chance, record=record, nodes=names, per_rack=story.per_rack)
        )

    try:
        simulate(
            whole,
            seed=seed,
            computed=True,
            pools=story.pools(nodes),
            prepare=partial(_furnish, story=story),
        )
    except* Exception as broken:
        if not records:
            raise
        error = f"{type(broken.exceptions[0]).__name__}: {broken.exceptions[0]}"
    return _run(name, nodes, seed, records[0], error=error, cpu_s=time.process_time() - began)


def _furnish(world: World, story: Story) -> None:
    world.hosts.driver = OLD
    world.hosts.labels_for = partial(place, per_rack=story.per_rack)
    if not story.is_checked:
        world.allow_probes()
        world.cloud.habits = replace(world.cloud.habits, unchecked=True)
    world.workloads = story.workloads(world.clock, world.entropy("workloads"))


def _run(name: str, nodes: int, seed: int, record: Record, *, error: str, cpu_s: float) -> Run:
    treated: list[float | None] = []
    for node, due_s in record.due.items():
        at_s = record.treated_at.get(node)
        treated.append(None if at_s is None else round(max(at_s - due_s, 0.0), 1))
    named = [record.named_after_s(cause) for cause in record.causes]
    return Run(
        story=name,
        nodes=nodes,
        seed=seed,
        error=error,
        budget=record.budget,
        destroyed=len(record.destroyed_at),
        destroyed_in_worst_hour=record.worst_hour(),
        sound_destroyed=len(record.sound_destroyed),
        surplus=len(record.surplus),
        sound_acted_on={act: len(found) for act, found in sorted(record.acts.items())},
        true_faults=len(record.due),
        treated_after_s=treated,
        named_after_s=[None if at_s is None else round(at_s, 1) for at_s, _ in named],
        named_as=[words for _, words in named],
        falsely_named=record.falsely_named(),
        unexplained=len(record.unexplained()),
        affected=sum(len(cause.shown_at) for cause in record.causes),
        measured=record.measured,
        cpu_s=round(cpu_s, 1),
    )


def judge(runs: Sequence[Run]) -> Iterator[Verdict]:
    """Yield the verdict for each figure of a story, over all its runs at one size."""
    for figure in STORIES[runs[0].story].figures:
        target, _ = _measure(figure, runs[0])
        measured = [(_measure(figure, run)[1], run) for run in runs]
        met = [run for value, run in measured if value is not None and value <= target]
        met = [run for run in met if not run.error]
        worst = sorted(measured, key=lambda x: (x[0] is not None, -(x[0] or 0.0), x[1].seed))
        yield Verdict(
            story=runs[0].story,
            nodes=runs[0].nodes,
            figure=figure,
            target=target,
            measured=worst[0][0],
            met=len(met) == len(runs),
            runs_met=len(met),
            runs=len(runs),
            worst_seeds=[run.seed for _, run in worst if run not in met][:WORST],
        )


def _measure(figure: Figure, run: Run) -> tuple[float, float | None]:
    """Return the most that a figure allows, and what was measured; None for never."""
    if figure is Figure.NOTHING_SOUND:
        return 0, run.sound_destroyed
    if figure is Figure.BUDGET:
        return run.budget, run.destroyed
    if figure is Figure.TREATED:
        return TREATED_WITHIN_S, _slowest(run.treated_after_s)
    if figure is Figure.PROVEN:
        return PROVEN_WITHIN_S, _slowest(run.treated_after_s)
    if figure is Figure.NAMED:
        return NAMED_WITHIN_S, _slowest(run.named_after_s)
    if figure is Figure.EXPLAINED:
        return 0, run.unexplained
    if figure is Figure.NO_FALSE_NAME:
        return 0, len(run.falsely_named)
    if figure is Figure.HANDLED:
        return 0, run.measured.get("unhandled")
    if figure is Figure.INTERRUPTIONS:
        return INTERRUPTIONS_MAX, run.measured.get("interruptions_per_fault")
    return ETTR_DISTANCE_MAX, run.measured.get("ettr_distance")


def _slowest(times: Sequence[float | None]) -> float | None:
    known = [at_s for at_s in times if at_s is not None]
    return max(known, default=0.0) if len(known) == len(times) else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.storms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=STORIES, metavar="STORY")
    parser.add_argument("--nodes", nargs="+", type=int, default=[288, 1000])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run stories")
    return parser


if __name__ == "__main__":
    main()
