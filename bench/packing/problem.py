"""The input of a run as arrays, and the capacity that is free while pods arrive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.packing.trace import Machine
from navarch.scheduler.packing.shape import WHOLE, Flags, Ids, MachineKind, Numbers, Shape


@dataclass(frozen=True, kw_only=True)
class PackingProblem:
    """Machines and shapes as arrays; machines, machine kinds and shapes are numbered."""

    machines: tuple[Machine, ...]
    shapes: tuple[Shape, ...]
    kinds: tuple[MachineKind, ...]
    kind_of: tuple[int, ...]
    """The kind of each machine."""
    could_use: Flags
    """[kind, shape]: whether an empty machine of the kind can hold the shape."""
    cpu: Numbers
    memory: Numbers
    gpus: Ids
    milli: Numbers
    demand: Numbers

    @classmethod
    def of(cls, machines: Iterable[Machine], shapes: Iterable[Shape]) -> PackingProblem:
        """Return the problem for these machines, listed in the order in which they win ties."""
        machines, shapes = tuple(machines), tuple(shapes)
        kinds = tuple(dict.fromkeys(machine.kind for machine in machines))
        numbers = {kind: number for number, kind in enumerate(kinds)}
        return cls(
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

    @property
    def capacity(self) -> int:
        """The thousandths of GPUs of all machines."""
        return sum(machine.gpus for machine in self.machines) * WHOLE

    @cached_property
    def gpus_max(self) -> int:
        """The GPU count of the largest machine or pod."""
        return max(int(self.gpus.max(initial=0)), *(machine.gpus for machine in self.machines))


class FreeCapacity:
    """The free CPU, memory and GPU thousandths of every machine.

    Plain lists: a pod changes one machine, and single numbers are slow to read from an array.
    """

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        self.cpu = [machine.cpu_milli for machine in problem.machines]
        self.memory = [machine.memory_mib for machine in problem.machines]
        self.gpus = [[WHOLE] * machine.gpus for machine in problem.machines]
        self.total = problem.capacity
        """Free thousandths of GPUs on all machines."""
        # Infinite where a machine kind cannot hold the shape at all.
        self._cpu_needed = np.where(problem.could_use, problem.cpu, np.inf)

    def allocate(self, shape: int, node: int, device: int) -> None:
        """Allocate a pod on the node; `device` is the GPU it shares, -1 if it shares none."""
        pod = self.problem.shapes[shape]
        self.cpu[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        self.total -= pod.demand
        left = self.gpus[node]
        if pod.shares:
            left[device] -= pod.gpu_milli
        else:
            missing = pod.gpus
            for index, milli in enumerate(left):
                if missing and milli == WHOLE:
                    left[index] = 0
                    missing -= 1
            assert not missing, f"{pod} does not fit on {self.problem.machines[node].name}"
        assert self.cpu[node] >= 0, self.problem.machines[node].name
        assert self.memory[node] >= 0, self.problem.machines[node].name
        assert min(left, default=0) >= 0, self.problem.machines[node].name

    def whole_gpus(self, node: int) -> int:
        """Return how many GPUs of the node are unused."""
        return self.gpus[node].count(WHOLE)

    def fits(self, node: int) -> Flags:
        """Return, for every shape, whether the node has room for a pod of it now."""
        problem = self.problem
        # A pod with q GPUs fits if the q-th freest GPU has enough left.
        left = sorted(self.gpus[node], reverse=True)
        ranked = np.zeros(problem.gpus_max + 1)
        ranked[1 : len(left) + 1] = left
        fits: Flags = self._cpu_needed[problem.kind_of[node]] <= self.cpu[node]
        fits &= problem.memory <= self.memory[node]
        fits &= problem.milli <= ranked.take(problem.gpus)
        return fits

    def state(self, node: int) -> tuple[int, ...]:
        """Return a key that is equal for nodes that are interchangeable for future pods."""
        return (
            self.problem.kind_of[node],
            self.cpu[node],
            self.memory[node],
            *sorted(self.gpus[node]),
        )
