"""Slots: room for pods that need several GPUs of one machine, and the value of that room.

Such pods can be placed only while one machine has enough GPUs, CPU and memory free at the same
time. A small pod in the wrong place breaks a slot that a large pod may need later. The value of a
slot is the number of its GPUs times the probability that slots of its kind run out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from navarch.scheduler.packing.shape import WHOLE, Flags, Ids, MachineKind, Numbers, Shape

SPARE: Final = 2
"""Slots to keep beyond the expected demand."""

FEW: Final = 4
"""Machine kinds with at most this many machines are not kept for unseen shapes."""

UNSEEN_MAX: Final = 16.0
"""The most pods of unseen shapes to expect. Until a sixteenth of the cluster was requested, this
many untouched machines of each kind are kept, because the demand for them is not yet known."""

PLENTY: Final = 3.0
"""A surplus of this many standard deviations (times the square root of 2) makes slots worthless."""

_NUDGE: Final = 1e-9
"""Keeps rounding errors from lowering a quotient that is a whole number."""


class SlotKind(NamedTuple):
    """The room one pod needs on a machine, and the kinds of machines that can provide it."""

    gpus: int
    cpu_milli: int
    memory_mib: int
    machines: frozenset[int]

    def covers(self, other: SlotKind) -> bool:
        """Return whether every pod that needs the other slot can use this one, wherever it is."""
        return (
            self.gpus >= other.gpus
            and self.cpu_milli >= other.cpu_milli
            and self.memory_mib >= other.memory_mib
            and self.machines <= other.machines
        )


class SlotKinds:
    """The kinds of slots that these shapes need, and untouched machines.

    Shapes with the same number of GPUs and the same usable machines share a kind, with room for the
    largest of them. An untouched machine is a slot as well if there are more than a few of its
    kind: a pod of an unseen shape may need all of it.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        machines: Sequence[MachineKind],
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
        """The kind of slot each shape needs, None for shapes with fewer than two GPUs."""
        self._covering = np.array(
            [[other.covers(kind) for other in self.kinds] for kind in self.kinds], dtype=np.float64
        ).reshape(len(self.kinds), len(self.kinds))
        self._requested = np.zeros(len(self.kinds))
        """Demand for slots of each kind, or of a kind that it covers."""
        self._gpus = np.array([kind.gpus for kind in self.kinds], dtype=np.float64)
        self._cpu = np.array([max(kind.cpu_milli, 1) for kind in self.kinds], dtype=np.float64)
        self._memory = np.array([max(kind.memory_mib, 1) for kind in self.kinds], dtype=np.float64)
        allowed = np.array(
            [[machine in kind.machines for kind in self.kinds] for machine in range(len(could_use))]
        ).reshape(len(could_use), len(self.kinds))
        # Slots are infinitely large on machines that cannot have them, so none fits.
        self._gpus_on = np.where(allowed, self._gpus, np.inf)

    def __len__(self) -> int:
        return len(self.kinds)

    def on(self, machine: int, *, cpu: float, memory: float, whole: int) -> Numbers:
        """Return how many slots of each kind a machine has with this much left."""
        slots: Numbers = whole / self._gpus_on[machine]
        np.minimum(slots, cpu / self._cpu, out=slots)
        np.minimum(slots, memory / self._memory, out=slots)
        slots += _NUDGE
        return np.floor(slots, out=slots)

    def sizes(self, kinds: Ids) -> tuple[Numbers, Numbers, Numbers]:
        """Return the GPUs, CPU and memory of the given kinds of slots, one row each."""
        return self._gpus[kinds, None], self._cpu[kinds, None], self._memory[kinds, None]

    def count(self, shape: int, amount: float) -> None:
        """Add `amount` to the demand of this shape."""
        if (kind := self.kind_of[shape]) is not None:
            self._requested += self._covering[:, kind] * amount

    def worth(self, there: Numbers, more: float) -> Numbers:
        """Return the value of one slot of each kind, in thousandths of GPUs.

        The value is the GPUs of the slot times the probability that the demand exceeds the slots
        `there` are. Demand is assumed to vary like random arrivals, with the square root of its
        mean, plus one. The expected demand is `more` times the demand counted so far.
        """
        return self.appraise(there, more)[1]

    def appraise(self, there: Numbers, more: float) -> tuple[Numbers, Numbers]:
        """Return the number from which slots of each kind have no value, and `worth`."""
        wanted, spare = self._wanted(more)
        spread = np.sqrt(2 * (wanted + 1))
        enough = np.where(wanted > 0, spare + wanted + PLENTY * spread, 0)
        margin = (there - spare - wanted) / spread
        worth = np.zeros(len(self.kinds))
        for kind in np.flatnonzero(there < enough).tolist():
            worth[kind] = 0.5 * math.erfc(margin[kind]) * self.kinds[kind].gpus * WHOLE
        return enough, worth

    def _wanted(self, more: float) -> tuple[Numbers, Numbers]:
        """Return the expected demand for slots of each kind, and how many to keep in reserve.

        The demand for untouched machines assumes that one pod of an unseen shape has arrived: the
        less was requested so far, the more of those may follow. The reserve shrinks to 0 at the
        end, when no more pods are expected.
        """
        wanted = self._requested * (more / WHOLE) / self._gpus
        unseen = min(more, UNSEEN_MAX)
        wanted = np.where(self._untouched, np.maximum(wanted, unseen), wanted)
        return wanted, np.where(self._untouched, SPARE * min(more, 1), SPARE)


def slots_after(
    sizes: tuple[Numbers, Numbers, Numbers], *, cpu: Numbers, memory: Numbers, whole: Ids
) -> Numbers:
    """Return [kind, machine]: how many slots machines have with this much left."""
    gpus_each, cpu_each, memory_each = sizes
    slots = whole / gpus_each
    np.minimum(slots, cpu / cpu_each, out=slots)
    np.minimum(slots, memory / memory_each, out=slots)
    slots += _NUDGE
    return np.floor(slots, out=slots)
