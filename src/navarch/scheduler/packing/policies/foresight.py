"""Foresight: puts a pod where it takes least from the pods to come.

Four things are weighed, all in thousandths of GPUs, all from the pods that have come so far:

* the *waste* that is expected of a GPU with so much left (waste.py),
* the *shortage* of CPU beside the GPUs that are left (shortage.py),
* the *slots* for pods with several GPUs that it would break (slots.py),
* the *contention* for machines that other pods depend on (contention.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from navarch.scheduler.packing.arrivals import Ids
from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.contention import Contention
from navarch.scheduler.packing.policy import NOWHERE, ScoringPolicy
from navarch.scheduler.packing.shortage import Shortage
from navarch.scheduler.packing.slots import SlotKinds, slots_after
from navarch.scheduler.packing.stage import Numbers, Stage
from navarch.scheduler.packing.trace import WHOLE
from navarch.scheduler.packing.waste import expected_waste

FIRST_LESSON: Final = 50
"""What pods ask for is first looked at after so many, and then whenever twice as many have come."""

LOOK_EVERY: Final = 32
"""Pods between two looks at what is left where; in between it changes too little to matter."""

GRAIN: Final = 1e-4
"""Scores that differ by less than this are equal, and the node listed first is filled first: what
is left over from adding up in another order must not spread pods over nodes."""

NEGLIGIBLE: Final = 1.0
"""A slot worth less than a thousandth of a GPU cannot decide anything."""

NOBODY: Final[Ids] = np.zeros(0, dtype=np.int64)


class Foresight(ScoringPolicy):
    """Starts without knowing anything, and never looks at pods that have not come yet."""

    def __init__(self, stage: Stage, books: Books, pods: list[int], seed: int) -> None:
        super().__init__(stage, books, pods, seed)
        self._seen: Counter[int] = Counter()
        self._arrivals = 0
        self._asked = 0
        self._next_lesson = FIRST_LESSON

        parts = sorted({shape.gpu_milli for shape in stage.shapes if shape.shares})
        self._parts = np.array(parts, dtype=np.int64)
        # A shape's column in the table of gains: one for each part of a GPU, one per count of GPUs.
        self._column = np.array(
            [
                parts.index(shape.gpu_milli) if shape.shares else len(parts) + shape.gpus
                for shape in stage.shapes
            ],
            dtype=np.int64,
        )
        # Memory and models make no difference to waste and shortage: shapes that differ in nothing
        # else are worked out once, and `_like` says which each of them is like.
        looks = list(zip(stage.cpu.tolist(), self._column.tolist(), strict=True))
        alike = {look: number for number, look in enumerate(dict.fromkeys(looks))}
        self._like = np.array([alike[look] for look in looks], dtype=np.int64)
        first = [looks.index(look) for look in alike]
        self._column_of_like = self._column[first]
        # What each of those takes; in front what no pod takes, for the state before.
        self._cpu = np.concatenate([[0.0], stage.cpu[first]])
        self._demand = np.concatenate([[0.0], stage.demand[first]])

        self._kind_of = np.array(stage.kind_of)
        self._contention = Contention(stage.shapes, stage.could_use)
        self._free = np.zeros(len(stage.kinds))
        for machine, kind in zip(stage.machines, stage.kind_of, strict=True):
            self._free[kind] += machine.gpus * WHOLE
        self._ledger = _Ledger(stage, books)
        self._learn()

    def arrived(self, shape: int) -> bool:
        """Count the pod; every now and then draw conclusions."""
        self._seen[shape] += 1
        self._arrivals += 1
        demand = self.stage.shapes[shape].demand
        self._asked += demand
        self._ledger.slots.count(shape, demand)
        self._contention.count(shape, demand)
        lesson = self._arrivals == self._next_lesson
        if lesson:
            self._next_lesson *= 2
            self._learn()
        elif self._arrivals % LOOK_EVERY == 0:
            self._look()
        return lesson

    def score(self, node: int) -> Numbers:
        """Return how much less waste and shortage there is to expect after each shape."""
        left = self.books.gpus[node]
        total = sum(left)
        if not total:
            return np.zeros(len(self._column))
        short = self._shortage.of_each(self.books.cpu[node] - self._cpu, total - self._demand)
        first, *others = set(left)
        best = self._gain_of_like[first]
        for milli in others:
            best = np.maximum(best, self._gain_of_like[milli])
        gains: Numbers = best + short[0]
        gains -= short[1:]
        gains *= 1 / GRAIN
        np.rint(gains, out=gains)
        gains *= GRAIN
        each: Numbers = gains.take(self._like)
        return each

    def weigh(self, shape: int, scores: Numbers) -> Numbers:
        """Take off what the node's GPUs cost, and the slots that the pod would break."""
        weighed: Numbers = scores - self.stage.demand[shape] * self._price
        # What is lost only lowers scores: unless the best node would lose something, it stays best.
        if self._ledger.holds[weighed.argmax()]:
            gain = self._gain[:, self._column[shape]]
            weighed[self._ledger.holders] -= self._ledger.loss(shape, gain)
        return weighed

    def device(self, shape: int, node: int) -> int:
        """Return the GPU whose expected waste shrinks most; of equals, one that is in use."""
        needed = self.stage.shapes[shape].gpu_milli
        gain = self._gain[:, self._column[shape]]
        left = self.books.gpus[node]
        fitting = [index for index, milli in enumerate(left) if milli >= needed]
        return max(fitting, key=lambda index: (gain[left[index]], -left[index]))

    def placed(self, shape: int, node: int) -> None:
        """Count what the pod has left of the node."""
        self._free[self.stage.kind_of[node]] -= self.stage.demand[shape]
        if self._ledger.update(node):
            self._ledger.value(self._more())

    def _learn(self) -> None:
        """Work out what follows from the pods seen so far."""
        stage = self.stage
        asked: Counter[int] = Counter()
        cpu = 0
        for number, count in self._seen.items():
            shape = stage.shapes[number]
            if shape.gpus:
                asked[shape.gpu_milli] += count
                cpu += shape.cpu_milli * count
        self._shortage = Shortage(cpu / self._asked if self._asked else 0.0)
        waste = expected_waste(asked)
        # Row m: what would be gained by taking each part from a GPU with m left. Whole GPUs have m
        # left, so that what they gain is the same in every row.
        after = np.arange(WHOLE + 1)[:, None] - self._parts
        parts = np.where(after < 0, NOWHERE, waste[:, None] - waste[np.maximum(after, 0)])
        whole = np.arange(stage.most_gpus + 1) * waste[WHOLE]
        self._gain = np.hstack([parts, np.broadcast_to(whole, (WHOLE + 1, len(whole)))])
        self._gain_of_like = self._gain[:, self._column_of_like]
        self._look()

    def _look(self) -> None:
        """Set prices and values by what is left now."""
        self._price = self._contention.prices(self._free, self._more())[self._kind_of]
        self._ledger.value(self._more())

    def _more(self) -> float:
        """Return how many times what has been asked for will be asked for until all is taken."""
        return self.books.free / self._asked if self._asked else 0.0


class _Ledger:
    """The slots of every node, and the nodes whose slots are worth something."""

    def __init__(self, stage: Stage, books: Books) -> None:
        self._stage = stage
        self._books = books
        self.slots = SlotKinds(stage.shapes, stage.kinds, Counter(stage.kind_of), stage.could_use)
        nodes = range(len(stage.machines))
        self._cpu = np.array(books.cpu, dtype=np.float64)
        self._memory = np.array(books.memory, dtype=np.float64)
        self._left = np.zeros((len(nodes), stage.most_gpus), dtype=np.int64)
        self._whole = np.array([books.whole(node) for node in nodes], dtype=np.int64)
        for node in nodes:
            self._left[node, : len(books.gpus[node])] = books.gpus[node]
        self._on = np.array([self._count(node) for node in nodes]).T.copy()
        self._there = self._on.sum(axis=1)
        self._some = [bool(column.any()) for column in self._on.T]
        """Whether each node has any slot at all."""
        self.holders = NOBODY
        """Nodes with slots that are worth something."""
        self.holds = np.zeros(len(nodes), dtype=bool)
        """The same, as a flag for every node."""

    def update(self, node: int) -> bool:
        """Read a node's books again; say whether it has lost slots that are worth something."""
        left = self._books.gpus[node]
        self._cpu[node], self._memory[node] = self._books.cpu[node], self._books.memory[node]
        self._left[node, : len(left)] = left
        self._whole[node] = left.count(WHOLE)
        if not self._some[node]:
            return False
        after = self._count(node)
        broken = self._on[:, node] - after
        if not broken.any():
            return False
        self._some[node] = bool(after.any())
        self._there -= broken
        self._on[:, node] = after
        return bool((self._there < self._enough)[broken > 0].any())

    def value(self, more: float) -> None:
        """Find out which slots are worth something, and what."""
        self._enough, worth = self.slots.appraise(self._there, more)
        self.holds[self.holders] = False
        self._precious = np.flatnonzero(worth > NEGLIGIBLE)
        if not len(self._precious):
            self.holders = NOBODY
            return
        self._worth = worth[self._precious]
        self.holders = np.flatnonzero(self._on[self._precious].any(axis=0))
        self.holds[self.holders] = True
        self._held = self._on[self._precious[:, None], self.holders]
        self._sizes = self.slots.sizes(self._precious)

    def loss(self, shape: int, gain: Numbers) -> Numbers:
        """Return what slots are lost at each holder, `gain` being what a GPU with m left gains."""
        asked = self._stage.shapes[shape]
        whole = self._whole.take(self.holders)
        if asked.shares:
            left = self._left.take(self.holders, axis=0)
            # A whole GPU is opened where that gains more than any in use.
            used = np.where(left < WHOLE, gain.take(left), NOWHERE).max(axis=1)
            whole = whole - (gain[WHOLE] > used)
        else:
            whole = whole - asked.gpus
        after = slots_after(
            self._sizes,
            cpu=self._cpu.take(self.holders) - asked.cpu_milli,
            memory=self._memory.take(self.holders) - asked.memory_mib,
            whole=whole,
        )
        # Kinds the node may not hold have no slots there before, and are not lost after.
        lost: Numbers = self._worth @ np.maximum(self._held - np.maximum(after, 0), 0)
        return lost

    def _count(self, node: int) -> Numbers:
        return self.slots.on(
            self._stage.kind_of[node],
            cpu=self._books.cpu[node],
            memory=self._books.memory[node],
            whole=self._books.whole(node),
        )
