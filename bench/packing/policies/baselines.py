"""The published baseline policies, and random placement."""

from typing import Final

import numpy as np

from bench.packing.policy import Policy
from bench.packing.problem import FreeCapacity, PackingProblem
from navarch.scheduler.packing.shape import WHOLE, Numbers

LARGEST_CPU: Final = 128_000
LARGEST_GPU: Final = 8_000
"""The largest machine of the published experiments, in thousandths of cores and of GPUs. Scores
are whole numbers from 0 to 100, so these constants decide which nodes tie, and ties matter."""

SHARED_MIN: Final = 50
USED_NODE_MIN: Final = 33
"""GPU packing gives each way to place a pod a band of scores: those that open less score higher."""


class BestFit(Policy):
    """Prefers the node with the least left afterwards, relative to the largest machine."""

    def score(self, node: int) -> Numbers:
        """Return 100 for a node that would be full, less for what would be left."""
        cpu = (self.free.cpu[node] - self.problem.cpu) / LARGEST_CPU
        gpu = (sum(self.free.gpus[node]) - self.problem.demand) / LARGEST_GPU
        return np.floor(100 * (1 - (cpu * 0.5 + gpu * 0.5)))


class DotProduct(Policy):
    """Prefers a small dot product of free and requested resources."""

    def score(self, node: int) -> Numbers:
        """Return 100 for a product of 0, less for more."""
        cpu = self.free.cpu[node] / LARGEST_CPU * self.problem.cpu / LARGEST_CPU
        gpu = sum(self.free.gpus[node]) / LARGEST_GPU * self.problem.demand / LARGEST_GPU
        return np.floor(100 * (1 - (cpu + gpu) / 2))


class GpuPacking(Policy):
    """Prefers shared GPUs, then free GPUs of used nodes, then free nodes."""

    def score(self, node: int) -> Numbers:
        """Return a score in the band of what the pod would open."""
        left = self.free.gpus[node]
        whole = left.count(WHOLE)
        if whole == len(left):
            opened: Numbers = np.full(len(self.problem.shapes), float(max(33 - whole, whole)))
        else:
            opened = np.maximum(USED_NODE_MIN, 50.0 - self.problem.gpus)
            for milli in sorted({milli for milli in left if 0 < milli < WHOLE}, reverse=True):
                shared = max(SHARED_MIN, 100 - milli * 100 // WHOLE // 10)
                opened[(self.problem.milli <= milli) & (self.problem.gpus == 1)] = shared
        opened[self.problem.gpus == 0] = 0
        return opened


class GpuClustering(Policy):
    """Keeps pods with the same number of GPUs on the same nodes.

    Nodes that hold only such pods come first, then nodes that also hold others, then empty nodes.
    """

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        super().__init__(problem, free, pods, seed)
        self._kind = [0 if shape.shares else shape.gpus or -1 for shape in problem.shapes]
        """The number of GPUs of each shape, 0 for a part of one and -1 for none."""
        self._kinds = np.array(self._kind)
        self._on: list[set[int]] = [set() for _ in problem.machines]

    def placed(self, shape: int, node: int) -> None:
        """Record which kinds of pods the node holds."""
        if self._kind[shape] >= 0:
            self._on[node].add(self._kind[shape])

    def score(self, node: int) -> Numbers:
        """Return a band of 25 for how alike the node's pods are, and in it how full it is."""
        held = self._on[node]
        full = 25 * (LARGEST_GPU - sum(self.free.gpus[node])) // LARGEST_GPU
        scores: Numbers = np.full(len(self._kinds), full + (0.0 if held else 25.0))
        for kind in held:
            scores[self._kinds == kind] = full + (75 if len(held) == 1 else 50)
        scores[self._kinds < 0] = 0
        return scores


class RandomPlacement(Policy):
    """Places a pod on a random node and GPU with room.

    The draws come from a generator of their own, so the arrivals equal those of other policies.
    """

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        super().__init__(problem, free, pods, seed)
        self._chance = np.random.default_rng([seed, len(pods), len(problem.machines)])

    def score(self, node: int) -> Numbers:
        """Return the same score for every node."""
        del node
        return np.zeros(len(self.problem.shapes))

    def adjust(self, shape: int, scores: Numbers) -> Numbers:
        """Add a random number to every score; nodes without room stay excluded."""
        del shape
        return scores + self._chance.random(len(scores))

    def device(self, shape: int, node: int) -> int:
        """Return a random GPU with room."""
        needed = self.problem.shapes[shape].gpu_milli
        fitting = [index for index, left in enumerate(self.free.gpus[node]) if left >= needed]
        return fitting[int(self._chance.integers(len(fitting)))]
