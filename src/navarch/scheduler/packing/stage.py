"""What does not change during a run: machines, shapes, and which could hold which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from navarch.scheduler.packing.arrivals import Ids
from navarch.scheduler.packing.trace import Machine, Shape

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Machines and shapes as columns. A machine is a number, and so is a shape."""

    machines: tuple[Machine, ...]
    shapes: tuple[Shape, ...]
    kinds: tuple[tuple[int, int, int, str], ...]
    kind_of: tuple[int, ...]
    """Each machine's kind."""
    could_use: Flags
    """[kind, shape]: whether an empty machine of the kind can hold the shape."""
    cpu: Numbers
    memory: Numbers
    gpus: Ids
    milli: Numbers
    demand: Numbers

    @property
    def capacity(self) -> int:
        """Return the thousandths of GPUs of all machines."""
        return sum(machine.gpus for machine in self.machines) * 1000

    @property
    def most_gpus(self) -> int:
        """Return how many GPUs the largest machine or pod has."""
        return max(int(self.gpus.max(initial=0)), *(machine.gpus for machine in self.machines))


def set_stage(machines: Iterable[Machine], shapes: Iterable[Shape]) -> Stage:
    """Return the stage for machines, in the order in which they are to win ties."""
    machines, shapes = tuple(machines), tuple(shapes)
    kinds = tuple(dict.fromkeys(machine.kind for machine in machines))
    numbers = {kind: number for number, kind in enumerate(kinds)}
    return Stage(
        machines=machines,
        shapes=shapes,
        kinds=kinds,
        kind_of=tuple(numbers[machine.kind] for machine in machines),
        could_use=np.array([[shape.could_use(kind) for shape in shapes] for kind in kinds]),
        cpu=np.array([shape.cpu_milli for shape in shapes], dtype=np.float64),
        memory=np.array([shape.memory_mib for shape in shapes], dtype=np.float64),
        gpus=np.array([shape.gpus for shape in shapes], dtype=np.int64),
        milli=np.array([shape.gpu_milli for shape in shapes], dtype=np.float64),
        demand=np.array([shape.demand for shape in shapes], dtype=np.float64),
    )
