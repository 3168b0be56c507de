"""Foresight: places a pod where it takes least from the pods that arrive later.

A score has four parts, in thousandths of GPUs, all estimated from the pods that have arrived so
far:

* the *waste* expected on a GPU with this much left (waste.py),
* the *shortage* of CPU beside the GPUs that are left (shortage.py),
* the *slots* for pods with several GPUs that the pod would break (slots.py),
* the *contention* for machines that other pods depend on (contention.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from bench.packing.policy import NOWHERE, Policy
from bench.packing.problem import FreeCapacity, PackingProblem
from navarch.scheduler.packing.shape import WHOLE, Ids, Numbers
from navarch.scheduler.packing.slots import SlotKinds, slots_after
from navarch.scheduler.packing.waste import Contention, Shortage, expected_waste

FIRST_ESTIMATE: Final = 50
"""The expected demand is estimated after this many pods, and again whenever their number
doubles."""

PRICE_EVERY: Final = 32
"""Pods between two updates of prices; free capacity changes too little in between."""

GRAIN: Final = 1e-4
"""Scores are rounded to multiples of this, so that rounding errors do not spread pods over nodes
that are equally good: the node listed first is filled first."""

NEGLIGIBLE: Final = 1.0
"""Slots worth less than a thousandth of a GPU are ignored."""

NO_NODES: Final[Ids] = np.zeros(0, dtype=np.int64)


class ForesightPolicy(Policy):
    """Foresight without a history: it uses only pods that have arrived."""

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        super().__init__(problem, free, pods, seed)
        self._seen: Counter[int] = Counter()
        self._arrivals = 0
        self._requested = 0
        self._next_estimate = FIRST_ESTIMATE

        parts = sorted({shape.gpu_milli for shape in problem.shapes if shape.shares})
        self._parts = np.array(parts, dtype=np.int64)
        # A shape's column in the table of gains: one per GPU fraction, one per number of GPUs.
        self._column = np.array(
            [
                parts.index(shape.gpu_milli) if shape.shares else len(parts) + shape.gpus
                for shape in problem.shapes
            ],
            dtype=np.int64,
        )
        # The request of each shape; a request of 0 comes first, for the state before the pod.
        self._cpu = np.concatenate([[0.0], problem.cpu])
        self._demand = np.concatenate([[0.0], problem.demand])

        self._kind_of = np.array(problem.kind_of)
        self._contention = Contention(problem.shapes, problem.could_use)
        self._free = np.zeros(len(problem.kinds))
        for machine, kind in zip(problem.machines, problem.kind_of, strict=True):
            self._free[kind] += machine.gpus * WHOLE
        self._ledger = _SlotLedger(problem, free)
        self._estimate()

    def arrived(self, shape: int) -> bool:
        """Count the pod, and update estimates or prices when they are due."""
        self._seen[shape] += 1
        self._arrivals += 1
        demand = self.problem.shapes[shape].demand
        self._requested += demand
        self._ledger.slots.count(shape, demand)
        self._contention.count(shape, demand)
        due = self._arrivals == self._next_estimate
        if due:
            self._next_estimate *= 2
            self._estimate()
        elif self._arrivals % PRICE_EVERY == 0:
            self._set_prices()
        return due

    def score(self, node: int) -> Numbers:
        """Return how much each shape would reduce the expected waste and shortage."""
        left = self.free.gpus[node]
        total = sum(left)
        if not total:
            return np.zeros(len(self._column))
        short = self._shortage.of_each(self.free.cpu[node] - self._cpu, total - self._demand)
        best = self._gain_of_shape[list(set(left))].max(axis=0)
        gains: Numbers = np.rint((best + short[0] - short[1:]) * (1 / GRAIN)) * GRAIN
        return gains

    def adjust(self, shape: int, scores: Numbers) -> Numbers:
        """Subtract the price of the node's GPUs and the value of the slots the pod would break."""
        adjusted: Numbers = scores - self.problem.demand[shape] * self._price
        # Losses only lower scores: if the best node loses nothing, it stays the best.
        if self._ledger.holds[adjusted.argmax()]:
            gain = self._gain[:, self._column[shape]]
            adjusted[self._ledger.holders] -= self._ledger.loss(shape, gain)
        return adjusted

    def device(self, shape: int, node: int) -> int:
        """Return the GPU whose expected waste shrinks most; a GPU in use wins ties."""
        needed = self.problem.shapes[shape].gpu_milli
        gain = self._gain[:, self._column[shape]]
        left = self.free.gpus[node]
        fitting = [index for index, milli in enumerate(left) if milli >= needed]
        return max(fitting, key=lambda index: (gain[left[index]], -left[index]))

    def placed(self, shape: int, node: int) -> None:
        """Update the free capacity of the node's kind and the slots of the node."""
        self._free[self.problem.kind_of[node]] -= self.problem.demand[shape]
        if self._ledger.update(node):
            self._ledger.value(self._more())

    def _estimate(self) -> None:
        """Estimate waste and shortage from the pods that have arrived."""
        problem = self.problem
        requested: Counter[int] = Counter()
        cpu = 0
        for number, count in self._seen.items():
            shape = problem.shapes[number]
            if shape.gpus:
                requested[shape.gpu_milli] += count
                cpu += shape.cpu_milli * count
        self._shortage = Shortage(cpu / self._requested if self._requested else 0.0)
        waste = expected_waste(requested)
        # Row m: the gain of taking each fraction from a GPU with m left. Requests for whole GPUs
        # gain the same in every row.
        after = np.arange(WHOLE + 1)[:, None] - self._parts
        parts = np.where(after < 0, NOWHERE, waste[:, None] - waste[np.maximum(after, 0)])
        whole = np.arange(problem.gpus_max + 1) * waste[WHOLE]
        self._gain = np.hstack([parts, np.broadcast_to(whole, (WHOLE + 1, len(whole)))])
        self._gain_of_shape = self._gain[:, self._column]
        self._set_prices()

    def _set_prices(self) -> None:
        """Set prices and slot values from the free capacity."""
        self._price = self._contention.prices(self._free, self._more())[self._kind_of]
        self._ledger.value(self._more())

    def _more(self) -> float:
        """Return the free GPUs as a multiple of the demand so far."""
        return self.free.total / self._requested if self._requested else 0.0


class _SlotLedger:
    """The slots of every node, and the nodes that hold slots with a value."""

    def __init__(self, problem: PackingProblem, free: FreeCapacity) -> None:
        self._problem = problem
        self._nodes = free
        self.slots = SlotKinds(
            problem.shapes, problem.kinds, Counter(problem.kind_of), problem.could_use
        )
        nodes = range(len(problem.machines))
        self._cpu = np.array(free.cpu, dtype=np.float64)
        self._memory = np.array(free.memory, dtype=np.float64)
        self._left = np.zeros((len(nodes), problem.gpus_max), dtype=np.int64)
        self._whole = np.array([free.whole_gpus(node) for node in nodes], dtype=np.int64)
        for node in nodes:
            self._left[node, : len(free.gpus[node])] = free.gpus[node]
        self._on = np.array([self._count(node) for node in nodes]).T.copy()
        self._count_of = self._on.sum(axis=1)
        self.holders = NO_NODES
        """Nodes that hold slots with a value."""
        self.holds = np.zeros(len(nodes), dtype=bool)
        """The same, as one flag per node."""

    def update(self, node: int) -> bool:
        """Read a node's free capacity again; return whether it lost slots with a value."""
        left = self._nodes.gpus[node]
        self._cpu[node] = self._nodes.cpu[node]
        self._memory[node] = self._nodes.memory[node]
        self._left[node, : len(left)] = left
        self._whole[node] = left.count(WHOLE)
        after = self._count(node)
        broken = self._on[:, node] - after
        self._count_of -= broken
        self._on[:, node] = after
        return bool((self._count_of < self._enough)[broken > 0].any())

    def value(self, more: float) -> None:
        """Compute the value of the slots of each kind."""
        self._enough, worth = self.slots.appraise(self._count_of, more)
        self.holds[self.holders] = False
        self._precious = np.flatnonzero(worth > NEGLIGIBLE)
        if not len(self._precious):
            self.holders = NO_NODES
            return
        self._worth = worth[self._precious]
        self.holders = np.flatnonzero(self._on[self._precious].any(axis=0))
        self.holds[self.holders] = True
        self._held = self._on[self._precious[:, None], self.holders]
        self._sizes = self.slots.sizes(self._precious)

    def loss(self, shape: int, gain: Numbers) -> Numbers:
        """Return the value of the slots that the shape breaks at each holder.

        `gain[m]` is the gain on a GPU with m thousandths left.
        """
        pod = self._problem.shapes[shape]
        whole = self._whole.take(self.holders)
        if pod.shares:
            left = self._left.take(self.holders, axis=0)
            # A whole GPU is opened if that gains more than any GPU in use.
            used = np.where(left < WHOLE, gain.take(left), NOWHERE).max(axis=1)
            whole = whole - (gain[WHOLE] > used)
        else:
            whole = whole - pod.gpus
        after = slots_after(
            self._sizes,
            cpu=self._cpu.take(self.holders) - pod.cpu_milli,
            memory=self._memory.take(self.holders) - pod.memory_mib,
            whole=whole,
        )
        # Slots of kinds that the node cannot hold count as 0 before and after.
        lost: Numbers = self._worth @ np.maximum(self._held - np.maximum(after, 0), 0)
        return lost

    def _count(self, node: int) -> Numbers:
        return self.slots.on(
            self._problem.kind_of[node],
            cpu=self._nodes.cpu[node],
            memory=self._nodes.memory[node],
            whole=self._nodes.whole_gpus(node),
        )
