"""What is left on every machine while pods come in."""

from __future__ import annotations

import numpy as np

from navarch.scheduler.packing.stage import Flags, Stage
from navarch.scheduler.packing.trace import WHOLE


class Books:
    """CPU, memory and each GPU that are left, machine by machine.

    Plain lists: a pod changes one machine, and few small numbers are quicker out of an array.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cpu = [machine.cpu_milli for machine in stage.machines]
        self.memory = [machine.memory_mib for machine in stage.machines]
        self.gpus = [[WHOLE] * machine.gpus for machine in stage.machines]
        self.free = stage.capacity
        """Thousandths of GPUs that are left in all."""
        self._no_gpu = [0] * (stage.most_gpus + 1)
        # What shapes ask for of each kind of machine; more than anything where it may not be.
        self._cpu_asked = np.where(stage.could_use, stage.cpu, np.inf)

    def take(self, shape: int, node: int, device: int) -> None:
        """Give the node's resources to a pod; `device` is the GPU it shares, if it shares one."""
        asked = self.stage.shapes[shape]
        self.cpu[node] -= asked.cpu_milli
        self.memory[node] -= asked.memory_mib
        self.free -= asked.demand
        left = self.gpus[node]
        if asked.shares:
            left[device] -= asked.gpu_milli
        else:
            wanted = asked.gpus
            for index, milli in enumerate(left):
                if wanted and milli == WHOLE:
                    left[index] = 0
                    wanted -= 1
            assert not wanted, f"{asked} does not fit on {self.stage.machines[node].name}"
        assert self.cpu[node] >= 0, self.stage.machines[node].name
        assert self.memory[node] >= 0, self.stage.machines[node].name
        assert min(left, default=0) >= 0, self.stage.machines[node].name

    def whole(self, node: int) -> int:
        """Return how many GPUs of the node nobody uses."""
        return self.gpus[node].count(WHOLE)

    def fits(self, node: int) -> Flags:
        """Say for every shape whether the node can take a pod of it now."""
        stage = self.stage
        # Rank q of the GPUs by what is left decides for a pod that asks for q of them.
        left = sorted(self.gpus[node], reverse=True)
        ranked = np.array([0, *left, *self._no_gpu[len(left) + 1 :]], dtype=np.float64)
        fits: Flags = self._cpu_asked[stage.kind_of[node]] <= self.cpu[node]
        fits &= stage.memory <= self.memory[node]
        fits &= stage.milli <= ranked.take(stage.gpus)
        return fits

    def state(self, node: int) -> tuple[int, ...]:
        """Return what tells two nodes apart, as far as pods to come are concerned."""
        return (
            self.stage.kind_of[node],
            self.cpu[node],
            self.memory[node],
            *sorted(self.gpus[node]),
        )
