"""What one task requests from a node."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from navarch.scheduler.model.quantity import GPU, Amounts, hundredths


class GpuKind(StrEnum):
    """The ways to request GPUs."""

    NONE = "none"
    WHOLE = "whole"
    FRACTION = "fraction"
    MEMORY = "memory"
    MIG = "mig"


SHARED_KINDS = frozenset({GpuKind.FRACTION, GpuKind.MEMORY})
WHOLE_KINDS = frozenset({GpuKind.NONE, GpuKind.WHOLE})
"""What such a request takes is the same on every node."""

_MIG_PROFILE = re.compile(r"mig-(\d+)g\.")


@dataclass(frozen=True, kw_only=True)
class GpuRequest:
    """The GPU part of a request. Only the fields of its kind are meaningful."""

    kind: GpuKind = GpuKind.NONE
    count: int = 0
    fraction: float = 0.0
    memory_mib: int = 0
    devices: int = 1
    mig: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def shared(self) -> bool:
        """Whether the task takes a part of a GPU that others may share."""
        return self.kind in SHARED_KINDS

    @cached_property
    def portion(self) -> int:
        """Hundredths of each device a fractional request takes; 0 for other kinds."""
        return hundredths(self.fraction) if self.kind is GpuKind.FRACTION else 0

    @cached_property
    def whole(self) -> int:
        """Hundredths of GPUs taken whole."""
        return self.count * GPU if self.kind is GpuKind.WHOLE else 0

    @cached_property
    def mig_quota(self) -> int:
        """Hundredths of GPUs that the MIG slices count for in a queue."""
        return sum(mig_slices(profile) * count for profile, count in self.mig.items()) * GPU

    def memory_on(self, gpu_memory_mib: int) -> int:
        """Return the MiB taken of each device of a GPU with `gpu_memory_mib`."""
        if self.kind is GpuKind.MEMORY:
            return self.memory_mib
        # Hundredths first: int(0.29 * 100) would lose a MiB to binary fractions.
        return self.portion * gpu_memory_mib // GPU

    def quota_on(self, gpu_memory_mib: int) -> int:
        """Return the hundredths of GPUs this counts for on a node with such GPUs."""
        match self.kind:
            case GpuKind.FRACTION:
                return self.portion * self.devices
            case GpuKind.MEMORY:
                return math.ceil(GPU * self.memory_mib / gpu_memory_mib) * self.devices
            case GpuKind.MIG:
                return self.mig_quota
            case _:
                return self.whole


def mig_slices(profile: str) -> int:
    """Return how many compute slices a profile such as `nvidia.com/mig-3g.20gb` has."""
    found = _MIG_PROFILE.search(profile)
    return int(found.group(1)) if found else 0


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything one task requests from its node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 1
    gpu: GpuRequest = field(default_factory=GpuRequest)
    dra_gpus: int = 0

    @cached_property
    def requires_gpu(self) -> bool:
        """Whether the task cannot run on a node without GPUs."""
        return self.gpu.kind is not GpuKind.NONE or self.dra_gpus > 0

    @cached_property
    def fixed_quota(self) -> Amounts | None:
        """The quota that the task uses on any node; `None` if it depends on the GPUs."""
        return None if self.gpu.kind is GpuKind.MEMORY else self._quota_on(0)

    def quota_on(self, gpu_memory_mib: int) -> Amounts:
        """Return the quota that the task uses on a node with such GPUs."""
        return self.fixed_quota or self._quota_on(gpu_memory_mib)

    def _quota_on(self, gpu_memory_mib: int) -> Amounts:
        gpu = self.gpu.quota_on(gpu_memory_mib) + self.dra_gpus * GPU
        return Amounts(self.cpu_milli, self.memory_bytes, gpu)
