"""The GPUs of one machine, and what can be learnt from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics


class GpuError(NavarchError):
    """The driver did not answer, or said no: that is a finding, not a reason to stop."""


class GpuLostError(GpuError):
    """The driver says that the device is no longer there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """What one GPU says of its own condition. None is what it cannot tell."""

    temperature_c: float | None = None
    slowdown_c: float | None = None
    """The card's own threshold, past which it slows itself down."""
    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """Something that happened on a GPU, once: an XID."""

    number: int
    """Counts up within one reader; see `GpuReader.settle`."""
    at: datetime
    gpu: str
    """The GPU's uuid, or whatever else its source knows it by."""
    code: int
    text: str = ""


class GpuReader(Protocol):
    """Reads the GPUs of one machine. Calls block, and raise only GpuError.

    Events stay until they are settled, so that an agent that dies between seeing one and
    writing it down sees it again.
    """

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU the driver knows; none is an answer, no driver is an error."""
        ...

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return what a GPU is doing."""
        ...

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
        ...

    def events(self) -> Sequence[GpuEvent]:
        """Return what has happened and is not settled yet, oldest first."""
        ...

    def settle(self, number: int) -> None:
        """Forget events up to `number`: they are safely written down elsewhere."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...
