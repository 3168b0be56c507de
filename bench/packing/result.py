"""The result of a run, and statistics over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from bench.packing.problem import PackingProblem
from navarch.core.errors import InvalidError
from navarch.scheduler.packing.shape import Ids


class Acceptance(NamedTuple):
    """How many pods of a kind arrived, and how many of them were placed."""

    arrived: int
    accepted: int

    @property
    def pct(self) -> float | None:
        """The percentage of placed pods, None if none arrived."""
        return 100 * self.accepted / self.arrived if self.arrived else None


@dataclass(frozen=True, kw_only=True)
class PackingResult:
    """One run, pod by pod."""

    policy: str
    load: float
    seed: int
    capacity: int
    nodes: tuple[str | None, ...]
    """The node of each pod in order of arrival, None if dropped."""
    arrived: Ids
    """Requested thousandths of GPUs up to and including each pod, dropped pods included."""
    allocated: Ids
    by_gpus: dict[int, Acceptance]
    shares: Acceptance
    """Pods that request a part of one GPU; `by_gpus` counts them under 1."""

    @classmethod
    def of(
        cls,
        problem: PackingProblem,
        arrivals: Sequence[int],
        nodes: Sequence[int | None],
        *,
        policy: str,
        load: float,
        seed: int,
    ) -> PackingResult:
        """Return the result for pods placed on these nodes."""
        shapes = np.array(arrivals, dtype=np.int64)
        kept = np.array([node is not None for node in nodes], dtype=np.int64)
        demand = problem.demand.astype(np.int64)[shapes]
        gpus = problem.gpus[shapes]
        part = (gpus == 1) & (demand < 1000)
        return cls(
            policy=policy,
            load=load,
            seed=seed,
            capacity=problem.capacity,
            nodes=tuple(None if node is None else problem.machines[node].name for node in nodes),
            arrived=np.cumsum(demand),
            allocated=np.cumsum(demand * kept),
            by_gpus={
                int(count): Acceptance(int((gpus == count).sum()), int(kept[gpus == count].sum()))
                for count in np.unique(gpus)
            },
            shares=Acceptance(int(part.sum()), int(kept[part].sum())),
        )

    @property
    def allocation_pct(self) -> float:
        """The percentage of all GPUs that is allocated at the end."""
        return 100 * int(self.allocated[-1]) / self.capacity if len(self.allocated) else 0.0

    def allocation_at(self, arrived_pct: float) -> float:
        """Return the allocated percentage when this percentage had just been requested."""
        reached = int(np.searchsorted(self.arrived, arrived_pct / 100 * self.capacity))
        if reached == len(self.arrived):
            raise InvalidError(f"only {self.load:.0%} arrived; no value at {arrived_pct} %")
        return 100 * int(self.allocated[reached]) / self.capacity

    def curve(self) -> list[tuple[float, float]]:
        """Return (arrived, allocated) at every whole percent of arrivals, and at the end.

        The last pod is the last that keeps the total below the load, so a run ends a little short
        of the load.
        """
        if not len(self.arrived):
            return []
        end = 100 * int(self.arrived[-1]) / self.capacity
        whole: list[tuple[float, float]] = [
            (float(pct), self.allocation_at(pct)) for pct in range(1, int(end) + 1)
        ]
        return [*whole, (end, self.allocation_pct)]


class Spread(NamedTuple):
    """The spread of one figure over several runs."""

    mean: float
    deviation: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Return mean, standard deviation and extremes."""
    deviation = stdev(values) if len(values) > 1 else 0.0
    return Spread(fmean(values), deviation, min(values), max(values))
