"""Room for pods that need several GPUs of one machine: how much there is, and what it is worth.

Such pods can be placed only while some machine has enough GPUs, CPU and memory free together. A pod
that needs little can break a slot by being put in the wrong place, and nothing but its own arrival
tells that a large one will want it. So slots are counted, and a slot is worth the GPUs in it times
the chance that it will be missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from navarch.scheduler.packing.arrivals import Ids
from navarch.scheduler.packing.stage import Flags, Numbers
from navarch.scheduler.packing.trace import WHOLE, Shape

SPARE: Final = 2
"""Slots to keep beyond those that are expected to be wanted."""

FEW: Final = 4
"""So few machines of a kind are not kept for pods that have never come."""

MOST_UNSEEN: Final = 16.0
"""No more pods like no other are reckoned with than this. Until a sixteenth of the cluster was
asked for, as many untouched machines of each kind are kept: to learn what they are wanted for."""

PLENTY: Final = 3.0
"""So many standard deviations (of a bell curve, times the root of 2) more than wanted is enough."""

_NUDGE: Final = 1e-9
"""Keeps a quotient that is a whole number from being rounded down below it."""


class SlotKind(NamedTuple):
    """What a machine must have left for one pod of a kind, and which kinds of machines may."""

    gpus: int
    cpu_milli: int
    memory_mib: int
    machines: frozenset[int]

    def covers(self, other: SlotKind) -> bool:
        """Say whether whoever needs the other slot could use this one, wherever it is."""
        return (
            self.gpus >= other.gpus
            and self.cpu_milli >= other.cpu_milli
            and self.memory_mib >= other.memory_mib
            and self.machines <= other.machines
        )


class SlotKinds:
    """The kinds of slots that these shapes need, and untouched machines.

    Shapes that need as many GPUs and can use the same machines share a kind, which has room for the
    largest of them. An untouched machine is a slot as well, where there are more than a few of its
    kind: a pod that nobody has seen yet may need all of it.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        machines: Sequence[tuple[int, int, int, str]],
        count: Mapping[int, int],
        could_use: Flags,
    ) -> None:
        largest: dict[tuple[int, frozenset[int]], SlotKind] = {}
        keys: list[tuple[int, frozenset[int]] | None] = []
        for index, shape in enumerate(shapes):
            usable = frozenset(np.flatnonzero(could_use[:, index]).tolist())
            if shape.gpus < 2 or not usable:
                keys.append(None)
                continue
            key = (shape.gpus, usable)
            old = largest.get(key, SlotKind(shape.gpus, 0, 0, usable))
            largest[key] = old._replace(
                cpu_milli=max(old.cpu_milli, shape.cpu_milli),
                memory_mib=max(old.memory_mib, shape.memory_mib),
            )
            keys.append(key)
        order = {key: number for number, key in enumerate(largest)}
        untouched = [
            SlotKind(gpus, cpu, memory, frozenset({number}))
            for number, (cpu, memory, gpus, _) in enumerate(machines)
            if gpus > 1 and count[number] > FEW
        ]
        self.kinds = (*largest.values(), *untouched)
        self._untouched = np.array([False] * len(largest) + [True] * len(untouched), dtype=bool)
        self.kind_of = [None if key is None else order[key] for key in keys]
        """For each shape the kind of slot it needs, if it needs several GPUs."""
        self._covering = np.array(
            [[other.covers(kind) for other in self.kinds] for kind in self.kinds], dtype=np.float64
        ).reshape(len(self.kinds), len(self.kinds))
        self._asked = np.zeros(len(self.kinds))
        """Demand for slots of each kind, or of one that covers it."""
        self._gpus = np.array([kind.gpus for kind in self.kinds], dtype=np.float64)
        self._cpu = np.array([max(kind.cpu_milli, 1) for kind in self.kinds], dtype=np.float64)
        self._memory = np.array([max(kind.memory_mib, 1) for kind in self.kinds], dtype=np.float64)
        allowed = np.array(
            [[machine in kind.machines for kind in self.kinds] for machine in range(len(could_use))]
        ).reshape(len(could_use), len(self.kinds))
        # On machines that may not have them slots are endless, so that none fits.
        self._gpus_on = np.where(allowed, self._gpus, np.inf)

    def __len__(self) -> int:
        return len(self.kinds)

    def on(self, machine: int, *, cpu: float, memory: float, whole: int) -> Numbers:
        """Return how many slots of each kind a machine of this kind has with so much left."""
        slots: Numbers = whole / self._gpus_on[machine]
        np.minimum(slots, cpu / self._cpu, out=slots)
        np.minimum(slots, memory / self._memory, out=slots)
        slots += _NUDGE
        return np.floor(slots, out=slots)

    def sizes(self, kinds: Ids) -> tuple[Numbers, Numbers, Numbers]:
        """Return the GPUs, CPU and memory of slots of some kinds, a row each."""
        return self._gpus[kinds, None], self._cpu[kinds, None], self._memory[kinds, None]

    def count(self, shape: int, amount: float) -> None:
        """Take note that so much was asked for by a pod of this shape."""
        if (kind := self.kind_of[shape]) is not None:
            self._asked += self._covering[:, kind] * amount

    def worth(self, there: Numbers, more: float) -> Numbers:
        """Return what one slot of each kind is worth, in thousandths of GPUs.

        That is the GPUs in it times the chance that more slots are wanted than there will be. What
        is wanted is thought to vary as arrivals at random do, by the root of its mean, and by one.
        `there` is how many there are, `more` how many times what was counted is still expected.
        """
        return self.appraise(there, more)[1]

    def appraise(self, there: Numbers, more: float) -> tuple[Numbers, Numbers]:
        """Return how many slots of each kind are so many that one is worth nothing; and `worth`."""
        wanted, spare = self._wanted(more)
        spread = np.sqrt(2 * (wanted + 1))
        enough = np.where(wanted > 0, spare + wanted + PLENTY * spread, 0)
        margin = (there - spare - wanted) / spread
        worth = np.zeros(len(self.kinds))
        for kind in np.flatnonzero(there < enough).tolist():
            worth[kind] = 0.5 * math.erfc(margin[kind]) * self.kinds[kind].gpus * WHOLE
        return enough, worth

    def _wanted(self, more: float) -> tuple[Numbers, Numbers]:
        """Return how many slots of each kind are expected to be wanted, and how many to spare.

        Untouched machines are wanted as if one pod like no other had come: the less was asked for
        so far, the more of those there may be. None is spared at the end, when no more will come.
        """
        wanted = self._asked * (more / WHOLE) / self._gpus
        unseen = min(more, MOST_UNSEEN)
        wanted = np.where(self._untouched, np.maximum(wanted, unseen), wanted)
        return wanted, np.where(self._untouched, SPARE * min(more, 1), SPARE)


def slots_after(
    sizes: tuple[Numbers, Numbers, Numbers], *, cpu: Numbers, memory: Numbers, whole: Ids
) -> Numbers:
    """Return [kind, machine]: how many slots machines that may have them have with so much left."""
    gpus_each, cpu_each, memory_each = sizes
    slots = whole / gpus_each
    np.minimum(slots, cpu / cpu_each, out=slots)
    np.minimum(slots, memory / memory_each, out=slots)
    slots += _NUDGE
    return np.floor(slots, out=slots)
