"""Many seeds of one scenario, in as many processes as there are cores."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import structlog

from navarch.sim.figures.figures import flatten
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

CHUNK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """The result of one seed."""

    seed: int
    passed: bool
    reason: str
    """The first thing that did not hold."""
    trace: str
    figures: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsReport:
    """The results of all seeds."""

    scenario: str
    first: int
    count: int
    failed: tuple[SeedResult, ...]
    """By seed."""
    command: str | None
    """The command that reproduces the smallest failing seed."""
    results: tuple[SeedResult, ...] = ()


def run_seeds(
    path: Path,
    *,
    first: int,
    count: int,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> SeedsReport:
    """Play a scenario with each of `count` seeds from `first` on; the smallest failure is named."""
    name = load_scenario(path).name
    workers = min(processes or os.cpu_count() or 1, -(-count // CHUNK))
    results: list[SeedResult] = []
    for found in _run(path, first, count, workers):
        results += found
        progress(len(results), count)
    results.sort(key=lambda result: result.seed)
    failed = tuple(result for result in results if not result.passed)
    return SeedsReport(
        scenario=name,
        first=first,
        count=count,
        failed=failed,
        command=f"navarch sim run {path} --seed {failed[0].seed}" if failed else None,
        results=tuple(results),
    )


def _run(path: Path, first: int, count: int, workers: int) -> Iterator[list[SeedResult]]:
    chunks = [
        range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)
    ]
    if workers <= 1:
        yield from (play_seeds(path, chunk) for chunk in chunks)
        return
    # Started afresh: a forked copy of a process with threads may hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(play_seeds, [path] * len(chunks), chunks)


def play_seeds(path: Path, seeds: Sequence[int]) -> list[SeedResult]:
    """Play a scenario with some seeds, one after the other."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    scenario = load_scenario(path)
    results = []
    for seed in seeds:
        outcome = run_scenario(scenario, seed=seed)
        broken = outcome.broken
        results.append(
            SeedResult(
                seed=seed,
                passed=outcome.passed,
                reason=f"{broken[0].what}: {broken[0].reason}" if broken else "",
                trace=outcome.trace,
                figures=flatten(outcome.figures),
            )
        )
    return results
