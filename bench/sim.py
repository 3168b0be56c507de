"""The simulator's figures: CPU and memory of large runs, wake-ups, seeds per hour. Prints JSON.

Each large run is a process of its own, so that its memory is its own. `--scale` divides fleets
and lengths of the large runs; a figure is held against its target at scale 1 only.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import structlog

from navarch.app import control_plane
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.runtime import Runtime
from navarch.ports.clock import Clock, Entropy
from navarch.service.agents import Timing
from navarch.sim.kernel import clock as clock_of
from navarch.sim.kernel.loop import SimLoop, SleepFuture
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.kinds import JobConfig
from navarch.sim.scenario.loading import load_scenario, parse_scenario
from navarch.sim.scenario.scenario import Scenario
from navarch.sim.world import world as world_of
from navarch.sim.world.hosts import TIMING
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

ROOT = Path(__file__).parents[1]
STORIES = 20
TIMEOUT = timedelta(seconds=30)

DAY = """
name: day
timing: {{heartbeat_interval: 10s, heartbeat_timeout: 30s, health_check_interval: 10s}}
providers: {{cloud: {{boot_min: 2m, boot_max: 5m}}}}
pools:
  training: {{provider: cloud, instance_type: h100-8x, min_nodes: {nodes}, max_nodes: {nodes}}}
jobs:
  - {{name: job, tasks: 1, gpus: 8, at: 1h, every: 30m, count: 20, duration: 4h,
     checkpoint_every: 30m}}
stress:
  duration: {hours}h
  metrics_interval: 10m
  chaos:
    enabled: {failing}
    failure_rate: {rate}
    xid_distribution: {{"79": 1}}
"""


def a_day(scale: int, *, failures: int) -> Scenario:
    """Return 5,000 machines for a day, with so many failures."""
    nodes, hours = 5_000 // scale, max(24 // scale, 1)
    # A little more than requested, since the count is rounded down.
    rate = (failures // scale + 0.5) * 1000 / (nodes * hours * 60)
    text = DAY.format(
        nodes=nodes, hours=hours, failing=str(failures > 0).lower(), rate=f"{rate:.6f}"
    )
    return parse_scenario(text, source="day")


def a_day_of_jobs(scale: int) -> Scenario:
    """Return a day with 240 failures, on which nine nodes in ten have a job of their own.

    Each job runs for six hours and is followed by the next one. Those of one minute begin together.
    """
    day, hour = a_day(scale, failures=240), timedelta(hours=1) / scale
    jobs = [
        JobConfig(
            name=f"slot-{number}",
            tasks=1,
            gpus=8,
            at=hour + number % 60 * hour / 60,
            every=6 * hour,
            count=4,
            duration=6 * hour,
            checkpoint_every=hour / 2,
        )
        for number in range(4_500 // scale)
    ]
    return replace(day, name="day-of-jobs", jobs=tuple(jobs))


def played(scenario: Scenario) -> dict[str, object]:
    """Return what it takes to play a scenario in this process, in all and piece by piece."""
    marks = [time.process_time()]
    outcome = run_scenario(scenario, progress=lambda _at, _until: marks.append(time.process_time()))
    marks.append(time.process_time())
    return {
        "cpu_s": round(marks[-1] - marks[0], 2),
        "pieces_s": [round(end - start, 6) for start, end in pairwise(marks)],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "injured": outcome.figures.injured,
        "replaced": outcome.figures.replacement.count,
        "simulated_s": outcome.simulated_s,
        "false_cordons": outcome.figures.false_cordons,
        "trace": outcome.trace,
        "broken": [verdict.what for verdict in outcome.broken],
    }


def apart(*arguments: str, limit_s: float) -> dict[str, Any]:
    """Return the same from a process of its own, or that it took too long."""
    command = [sys.executable, "-m", "bench.sim", "--one", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=limit_s, check=True)
    except subprocess.TimeoutExpired:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {"not_finished_within_s": limit_s, "cpu_s_of_children": round(used.ru_utime, 1)}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


class CountedLoop(SimLoop):
    """A virtual loop that counts how often it wakes a task."""

    woken = 0

    def call_soon(self, *call: object, context: Context | None = None) -> asyncio.Handle:
        """Call after all that is to be called already."""
        CountedLoop.woken += isinstance(getattr(call[0], "__self__", None), asyncio.Task)
        return super().call_soon(*call, context=context)


class CountedSleep(SleepFuture):
    """A sleep that counts among them."""

    def add_done_callback(
        self, wake: Callable[[asyncio.Future[None]], object], *, context: Context
    ) -> None:
        """Have the task that has begun to wait woken in time, and counted then."""

        def count(word: asyncio.Future[None]) -> None:
            CountedLoop.woken += 1
            wake(word)

        super().add_done_callback(count, context=context)


class Counted:
    """The rounds of controllers, as the product starts them."""

    rounds = 0


class CountingRuntime(Runtime):
    """A runtime that counts the rounds it starts."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        controllers: Iterable[Controller],
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Wrap each controller so that its rounds are counted."""
        super().__init__(clock, entropy, [_counting(each) for each in controllers], **options)


def _counting(controller: Controller) -> Controller:
    reconcile = controller.reconcile

    async def counted(keys: Sequence[Any]) -> None:
        Counted.rounds += 1
        await reconcile(keys)

    setattr(controller, "reconcile", counted)  # noqa: B010 - the product's own, with a counter
    return controller


def wake_ups() -> dict[str, object]:
    """Return how often per CPU second the virtual clock wakes tasks around the product.

    Three runs: every heartbeat and report is sent and received, as in production, which the target
    is about; a quiet fleet with computed heartbeats, in which only the product's own loops come due
    and find little to do; and a busy fleet, in which most rounds decide, commit and call providers.
    The number of rounds of the product's loops among the wake-ups is returned as well. The time of
    agents and of the cloud is included.
    """
    setattr(control_plane, "Runtime", CountingRuntime)  # noqa: B010 - the product uses Runtime
    setattr(world_of, "SimLoop", CountedLoop)  # noqa: B010
    setattr(clock_of, "SleepFuture", CountedSleep)  # noqa: B010
    try:
        often = Timing(heartbeat_interval=timedelta(seconds=10), heartbeat_timeout=TIMEOUT)
        sent = woken_in(nodes=500, hours=0.25, computed=False, timing=often)
        quiet, busy = woken_in(hours=200), woken_in(hours=20, failures=100)
    finally:
        setattr(control_plane, "Runtime", Runtime)  # noqa: B010
        setattr(world_of, "SimLoop", SimLoop)  # noqa: B010
        setattr(clock_of, "SleepFuture", SleepFuture)  # noqa: B010
    return {"sent": sent, "quiet": quiet, "busy": busy, "target_per_cpu_s": 50_000}


def woken_in(
    *,
    hours: float,
    nodes: int = 20,
    failures: int = 0,
    computed: bool = True,
    timing: Timing = TIMING,
) -> dict[str, int]:
    """Return how often tasks are woken in so many hours, by the CPU second."""
    pool = a_pool(size=nodes)
    spent_s: list[float] = []

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(pool.name)) == pool.size, within_s=3600)
        CountedLoop.woken = Counted.rounds = 0
        began = time.process_time()
        for _ in range(failures):
            await world.clock.sleep(hours * 3600 / failures)
            if serving := world.serving(pool.name):
                world.fail(serving[0], "XID 79")
        await world.clock.sleep(0.0 if failures else hours * 3600)
        spent_s.append(time.process_time() - began)
        counted.update(wake_ups=CountedLoop.woken, rounds=Counted.rounds)

    counted: dict[str, int] = {}
    simulate(story, seed=1, pools=[pool], computed=computed, timing=timing)
    return {
        **counted,
        "per_cpu_s": round(counted["wake_ups"] / spent_s[0]),
        "rounds_per_cpu_s": round(counted["rounds"] / spent_s[0]),
    }


def stories() -> dict[str, object]:
    """Return how many seeds of a small story two cores would play in an hour."""
    scenario = load_scenario(ROOT / "scenarios" / "pool-replacement.yaml")
    run_scenario(scenario, seed=0)
    began = time.process_time()
    passed = sum(run_scenario(scenario, seed=seed).passed for seed in range(STORIES))
    each_s = (time.process_time() - began) / STORIES
    return {
        "cpu_s_each": round(each_s, 4),
        "per_hour_on_two_cores": round(2 * 3600 / each_s),
        "target": 10_000,
        "passed": passed,
        "of": STORIES,
    }


def one(name: str, scale: int) -> dict[str, object]:
    """Play one of the large runs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if name == "jobs":
        return played(a_day_of_jobs(scale))
    if name == "llama3":
        return played(load_scenario(ROOT / "scenarios" / "incidents" / "llama3-pretraining.yaml"))
    return played(a_day(scale, failures=int(name)))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each large run")
    parser.add_argument("--pairs", type=int, default=7, help="days with few and many failures")
    parser.add_argument("--without-llama3", action="store_true")
    parser.add_argument("--jobs", action="store_true", help="only the day with 4,500 jobs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(one(chosen.one, chosen.scale)))
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    scale, limit_s = ("--scale", str(chosen.scale)), chosen.limit
    jobs = piece_by_piece([apart("jobs", *scale, limit_s=limit_s)])
    day_of_jobs = {**jobs, "target_cpu_s": 30}
    if chosen.jobs:
        print(json.dumps({"scale": chosen.scale, "day_of_jobs": day_of_jobs}, indent=2))
        return
    # So many more that what they cost stands out from how much two runs of a day differ; and
    # several pairs, since others on the same host make any one of them take longer.
    pairs = [
        (apart("240", *scale, limit_s=limit_s), apart("1200", *scale, limit_s=limit_s))
        for _ in range(chosen.pairs)
    ]
    few, many = (piece_by_piece([pair[side] for pair in pairs]) for side in (0, 1))
    found: dict[str, object] = {
        "scale": chosen.scale,
        "day": {**few, "target_cpu_s": 10, "target_peak_mb": 1000},
        "day_with_five_times_the_failures": many,
        "day_of_jobs": day_of_jobs,
        "further_failure_ms": further(few, many, of="undisturbed_cpu_s"),
        "further_failure_usually_ms": further(few, many),
        "further_failure_by_pairs_ms": [further(*pair) for pair in pairs],
        "further_failure_target_ms": 2,
        "wake_ups": wake_ups(),
        "stories": stories(),
    }
    if not chosen.without_llama3:
        llama3 = piece_by_piece([apart("llama3", limit_s=limit_s)])
        found["llama3"] = {**llama3, "target_cpu_s": 30}
    print(json.dumps(found, indent=2))


def piece_by_piece(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one run for several of the same: each piece as usual, and as quick as it ever was.

    Runs of one seed do the same in the same ten minutes of their day, so that what some run takes
    longer for is what others on the same host did to it. They do so for tenths of a second: to
    a few pieces of some runs, but to every run as a whole. What no run took less for is what the
    piece takes by itself.
    """
    finished = [run for run in runs if "pieces_s" in run]
    if not finished:
        return runs[0]
    taken = [run.pop("pieces_s") for run in finished]
    pieces = list(zip(*taken, strict=True))
    return {
        **finished[0],
        "cpu_s": round(sum(map(median, pieces)), 3),
        "undisturbed_cpu_s": round(sum(map(min, pieces)), 3),
        "cpu_s_of_each_run": [run["cpu_s"] for run in finished],
    }


def further(few: dict[str, Any], many: dict[str, Any], *, of: str = "cpu_s") -> float | None:
    """Return what one failure more costs, in milliseconds of CPU, where both runs finished."""
    if of not in few or of not in many:
        return None
    failures: int = max(many["injured"] - few["injured"], 1)
    spent_s: float = many[of] - few[of]
    return round(1000 * spent_s / failures, 2)


if __name__ == "__main__":
    main()
