"""Amounts of CPU, memory and GPU as whole numbers, so that undoing a booking is exact.

Units: thousandths of a core, bytes, hundredths of a GPU. A fraction of a GPU is a whole number of
hundredths everywhere inside the scheduler; only input and output use decimals.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

UNLIMITED = -1
"""As a quota or limit: no bound at all."""

GPU = 100
"""One whole GPU, in the unit used for GPUs."""

RESOURCE_NAMES = ("cpu", "memory", "gpu")
"""The resources queues are given shares of, in the order they are divided."""

RESOURCE_UNITS = (1, 1, GPU)
"""What one indivisible step of each resource is when shares are rounded down."""


_new = tuple.__new__
"""Makes amounts in half the time that calling `Amounts` takes; they are added up all the time."""


class Amounts(NamedTuple):
    """How much of each resource that queues share. Whole numbers for use, floats for shares."""

    cpu: float
    memory: float
    gpu: float

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the element-wise sum."""
        cpu, memory, gpu = self
        more_cpu, more_memory, more_gpu = other
        return _new(Amounts, (cpu + more_cpu, memory + more_memory, gpu + more_gpu))

    def minus(self, other: "Amounts") -> "Amounts":
        """Return the element-wise difference."""
        cpu, memory, gpu = self
        less_cpu, less_memory, less_gpu = other
        return _new(Amounts, (cpu - less_cpu, memory - less_memory, gpu - less_gpu))

    def times(self, count: int) -> "Amounts":
        """Return this amount `times` over."""
        cpu, memory, gpu = self
        return _new(Amounts, (cpu * count, memory * count, gpu * count))

    def within(self, bound: "Amounts") -> bool:
        """Return whether no element exceeds `bound`, where an unlimited bound is never exceeded."""
        return (
            (bound.cpu == UNLIMITED or self.cpu <= bound.cpu)
            and (bound.memory == UNLIMITED or self.memory <= bound.memory)
            and (bound.gpu == UNLIMITED or self.gpu <= bound.gpu)
        )


NOTHING = Amounts(0, 0, 0)


def hundredths(gpus: float) -> int:
    """Return `gpus` in hundredths, rounded to the nearest."""
    return math.floor(gpus * GPU + 0.5)


def share_of_gpus(gpus: float) -> float:
    """Return a quota given in GPUs in hundredths, keeping finer parts than a hundredth."""
    return UNLIMITED if gpus == UNLIMITED else round(gpus * GPU, 6)


def gpus(hundredths_of_gpu: float) -> float:
    """Return hundredths of a GPU as a decimal number of GPUs, for output."""
    return hundredths_of_gpu / GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityVerdict:
    """The answer to 'may these tasks be placed as far as quotas and limits go'."""

    schedulable: bool = True
    reason: str = ""
    """`OverLimit` or `NonPreemptibleOverQuota`."""
    message: str = ""
    queue: str = ""
    resource: str = ""
    requested: float = 0.0
    used: float = 0.0
    bound: float = 0.0
    also: "tuple[CapacityVerdict, ...]" = ()
    """What else is in the way: raising one bound does not help where another refuses, too."""

    @property
    def bound_kind(self) -> str:
        """What it is beyond: a `limit`, or a `quota`, for work that may not be interrupted."""
        return "limit" if self.reason == "OverLimit" else "quota"


SCHEDULABLE = CapacityVerdict()
