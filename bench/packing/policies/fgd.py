"""Fragmentation gradient descent (FGD), the best of the published policies.

A fragment is the part of a node's free GPUs that a typical pod cannot use. A pod is placed where
the expected fragment, over typical pods, grows least (Weng et al., USENIX ATC 2023).

The expensive part is the sum over typical pods. Only three properties of a typical pod matter: its
*device need* (how many GPUs, how much of each), its CPU, and its GPU models. The usable part of a
node's GPUs depends on the device need alone, and whether the node's CPU suffices depends only on
the rank of the request among all CPU requests. So the usable GPUs per device need, times one matrix
per kind of node, give the expected fragment for every amount of free CPU.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from bench.packing.policy import NOWHERE, Policy
from bench.packing.problem import FreeCapacity, PackingProblem
from navarch.scheduler.packing.shape import WHOLE, Ids, Numbers, Shape

TYPICAL_PART: Final = 0.95
"""Typical pods are the most frequent shapes that make up this part of all pods."""


class FragmentationGradient(Policy):
    """FGD with the pod list known from the start, as in the published experiments."""

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        super().__init__(problem, free, pods, seed)
        typical = typical_pods(Counter(problem.shapes[pod] for pod in pods))
        needs = sorted({(shape.gpus, shape.gpu_milli) for shape in typical if shape.gpus})
        self._need_gpus = np.array([gpus for gpus, _ in needs], dtype=np.float64)
        self._cpus = np.array(sorted({shape.cpu_milli for shape in typical}), dtype=np.float64)
        self._weights = _weights(problem, typical, needs, self._cpus)
        # Row m: how much of a GPU with m left each device need can use, and whether it can.
        left = np.arange(WHOLE + 1, dtype=np.float64)[:, None]
        milli = np.array([milli for _, milli in needs], dtype=np.float64)
        self._could = (left >= milli).astype(np.float64)
        self._usable = left * self._could

        parts = sorted({shape.gpu_milli for shape in problem.shapes if shape.shares})
        self._parts = np.array(parts, dtype=np.int64)
        self._sharing = np.flatnonzero([shape.shares for shape in problem.shapes])
        self._part_of = np.array(
            [parts.index(problem.shapes[index].gpu_milli) for index in self._sharing],
            dtype=np.int64,
        )
        self._counts = np.arange(problem.gpus_max + 1, dtype=np.float64)[:, None]
        self._whole_gpus = np.where(problem.milli == WHOLE, problem.gpus, 0)

    def score(self, node: int) -> Numbers:
        """Return a whole number from 0 to 100, above 50 where the expected fragment shrinks."""
        left = self.free.gpus[node]
        total = sum(left)
        if total == 0:
            return np.full(len(self.problem.shapes), 50.0)
        usable, could = self._usable[left].sum(axis=0), self._could[left].sum(axis=0)
        weights = self._weights[self.problem.kind_of[node]]
        rank = np.searchsorted(self._cpus, self.free.cpu[node] - self.problem.cpu, side="right")
        used = self._expected(
            usable - self._counts * self._usable[WHOLE],
            could - self._counts * self._could[WHOLE],
            weights,
        )[self._whole_gpus, rank]
        if len(self._sharing):
            used[self._sharing] = self._after_sharing(
                sorted(set(left) - {0}), usable, could, weights, rank[self._sharing]
            )
        before = self._before(node, usable, could, weights)
        # The expected fragment is what is left minus what typical pods can use of it.
        gained = total - before - (total - self.problem.demand - used)
        return quantised(gained)

    def device(self, shape: int, node: int) -> int:
        """Return the first GPU with the best score."""
        left = self.free.gpus[node]
        needed = self.problem.shapes[shape].gpu_milli
        fitting = [index for index, milli in enumerate(left) if milli >= needed]
        usable, could = self._usable[left].sum(axis=0), self._could[left].sum(axis=0)
        weights = self._weights[self.problem.kind_of[node]]
        then = np.array([left[index] for index in fitting])
        used = self._expected(
            usable - self._usable[then] + self._usable[then - needed],
            could - self._could[then] + self._could[then - needed],
            weights,
        )
        cpu = self.free.cpu[node] - self.problem.cpu[shape]
        rank = int(np.searchsorted(self._cpus, cpu, side="right"))
        before = self._before(node, usable, could, weights)
        return fitting[int(quantised(needed - before + used[:, rank]).argmax())]

    def _after_sharing(
        self, values: list[int], usable: Numbers, could: Numbers, weights: Numbers, rank: Ids
    ) -> Numbers:
        """Return what is usable after each sharing shape is placed on the best GPU for it."""
        then = np.array(values)[:, None] - self._parts
        kept = np.maximum(then, 0)
        rows = len(values), 1, -1
        used = self._expected(
            usable - self._usable[values].reshape(rows) + self._usable[kept],
            could - self._could[values].reshape(rows) + self._could[kept],
            weights,
        )
        used[then < 0] = NOWHERE
        best: Numbers = used[:, self._part_of, rank].max(axis=0)
        return best

    def _before(self, node: int, usable: Numbers, could: Numbers, weights: Numbers) -> float:
        rank = int(np.searchsorted(self._cpus, self.free.cpu[node], side="right"))
        return float(np.where(could >= self._need_gpus, usable, 0) @ weights[:, rank])

    def _expected(self, usable: Numbers, could: Numbers, weights: Numbers) -> Numbers:
        """Return what typical pods can use, for each rank of the free CPU."""
        enough = np.where(could >= self._need_gpus, usable, 0)
        expected: Numbers = enough @ weights
        return expected


def typical_pods(counts: Counter[Shape]) -> dict[Shape, float]:
    """Return the most frequent shapes with their weights; shapes are compared without memory."""
    merged: Counter[Shape] = Counter()
    for shape, count in counts.items():
        merged[shape._replace(memory_mib=0)] += count
    typical: dict[Shape, float] = {}
    wanted = TYPICAL_PART * counts.total()
    for shape, count in sorted(merged.items(), key=lambda item: (-item[1], item[0])):
        if sum(typical.values()) >= wanted:
            break
        typical[shape] = count
    total = sum(typical.values())
    return {shape: count / total for shape, count in typical.items()}


def quantised(gained: Numbers) -> Numbers:
    """Return scores as whole numbers, so that similar nodes tie and the first one wins."""
    return np.floor(100 / (1 + np.exp(-gained / 1000)))


def _weights(
    problem: PackingProblem,
    typical: dict[Shape, float],
    needs: list[tuple[int, int]],
    cpus: Numbers,
) -> Numbers:
    """Return [kind, need, rank]: the weight of typical pods with the need and a CPU below the rank.

    Only the GPU model of the kind matters here; amounts are checked against the free capacity.
    """
    weights = np.zeros((len(problem.kinds), len(needs), len(cpus) + 1))
    for shape, weight in typical.items():
        if not shape.gpus:
            continue
        need = needs.index((shape.gpus, shape.gpu_milli))
        rank = int(np.searchsorted(cpus, shape.cpu_milli)) + 1
        for kind, (_, _, _, model) in enumerate(problem.kinds):
            if not shape.models or model in shape.models:
                weights[kind, need, rank:] += weight
    return weights
