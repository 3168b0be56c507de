"""The shape of a pod, and the array types that packing computes with."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MachineKind = tuple[int, int, int, str]
"""Milli-CPU, MiB of memory, GPUs and GPU model of an empty machine."""

WHOLE: Final = 1000
"""One GPU, in thousandths."""


class Shape(NamedTuple):
    """The resource request of a pod; pods of one shape are interchangeable."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Thousandths of each GPU: below 1000 the pod shares one GPU with others."""
    models: tuple[str, ...] = ()
    """The GPU models the pod can use, sorted; empty means any."""

    @property
    def demand(self) -> int:
        """The requested thousandths of GPUs in total."""
        return self.gpus * self.gpu_milli

    @property
    def shares(self) -> bool:
        """True if the pod uses a part of one GPU."""
        return 0 < self.demand < WHOLE

    def could_use(self, kind: MachineKind) -> bool:
        """Return whether an empty machine of this kind can hold the pod."""
        cpu, memory, gpus, model = kind
        enough = self.cpu_milli <= cpu and self.memory_mib <= memory and self.gpus <= gpus
        return enough and (not self.gpus or not self.models or model in self.models)
