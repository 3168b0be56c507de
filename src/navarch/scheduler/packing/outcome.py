"""What came of a run, and of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.arrivals import Ids
from navarch.scheduler.packing.stage import Stage


class Accepted(NamedTuple):
    """How many pods of a kind came, and how many of them found a place."""

    arrived: int
    accepted: int

    @property
    def pct(self) -> float | None:
        """Return the part that found a place, nothing if none came."""
        return 100 * self.accepted / self.arrived if self.arrived else None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run, pod by pod."""

    policy: str
    load: float
    seed: int
    capacity: int
    nodes: tuple[str | None, ...]
    """Where each pod went, in the order in which they came."""
    arrived: Ids
    """Thousandths of GPUs that had been asked for after each pod, dropped ones included."""
    allocated: Ids
    by_gpus: dict[int, Accepted]
    shares: Accepted
    """Pods that ask for a part of one GPU; `by_gpus` counts them under 1."""

    @classmethod
    def of(
        cls,
        stage: Stage,
        arrivals: Sequence[int],
        nodes: Sequence[int | None],
        *,
        policy: str,
        load: float,
        seed: int,
    ) -> Outcome:
        """Return the outcome of pods that went to these nodes."""
        shapes = np.array(arrivals, dtype=np.int64)
        kept = np.array([node is not None for node in nodes], dtype=np.int64)
        demand = stage.demand.astype(np.int64)[shapes]
        gpus = stage.gpus[shapes]
        part = (gpus == 1) & (demand < 1000)
        return cls(
            policy=policy,
            load=load,
            seed=seed,
            capacity=stage.capacity,
            nodes=tuple(None if node is None else stage.machines[node].name for node in nodes),
            arrived=np.cumsum(demand),
            allocated=np.cumsum(demand * kept),
            by_gpus={
                int(count): Accepted(int((gpus == count).sum()), int(kept[gpus == count].sum()))
                for count in np.unique(gpus)
            },
            shares=Accepted(int(part.sum()), int(kept[part].sum())),
        )

    @property
    def allocation_pct(self) -> float:
        """Return the part of all GPUs that is allocated at the end."""
        return 100 * int(self.allocated[-1]) / self.capacity if len(self.allocated) else 0.0

    def allocation_at(self, arrived_pct: float) -> float:
        """Return what was allocated when this part of all GPUs had just been asked for."""
        reached = int(np.searchsorted(self.arrived, arrived_pct / 100 * self.capacity))
        if reached == len(self.arrived):
            raise InvalidError(f"only {self.load:.0%} arrived, there is nothing at {arrived_pct} %")
        return 100 * int(self.allocated[reached]) / self.capacity

    def curve(self) -> list[tuple[float, float]]:
        """Return what was allocated at every whole percent that arrived, and at the end.

        The last pod of the protocol is the last that fits below what is to arrive, so the end is
        a little short of it.
        """
        if not len(self.arrived):
            return []
        end = 100 * int(self.arrived[-1]) / self.capacity
        whole: list[tuple[float, float]] = [
            (float(pct), self.allocation_at(pct)) for pct in range(1, int(end) + 1)
        ]
        return [*whole, (end, self.allocation_pct)]


class Spread(NamedTuple):
    """A figure of several runs."""

    mean: float
    deviation: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Return mean, standard deviation and extremes."""
    deviation = stdev(values) if len(values) > 1 else 0.0
    return Spread(fmean(values), deviation, min(values), max(values))
