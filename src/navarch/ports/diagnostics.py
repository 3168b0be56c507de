"""Tests that use the GPUs, and therefore need them for themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.inventory import Gpu


class NotRunError(NavarchError):
    """The test could not be made, for the reason given: that is not a failure of the GPU."""


class TestFailedError(NavarchError):
    """The GPU, or its driver, failed while it was tested."""

    __test__ = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnFigures:
    """What matrix products came to."""

    tflops: float
    seconds: float
    products: int
    wrong: int
    """Numbers that were not what they should have been."""
    precision: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFigures:
    """What writing patterns to memory and reading them back came to."""

    tested_bytes: int
    patterns: int
    wrong: int
    """Words that came back changed."""
    first_wrong: int | None = None
    """Where the first of them is, as an offset in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFigures:
    """How fast bytes move, in units of 1e9 bytes a second; None where there is no such way."""

    to_device_gbs: float | None = None
    from_device_gbs: float | None = None
    on_device_gbs: float | None = None
    """Read and written bytes both counted, as memory bandwidths are."""
    between_devices_gbs: float | None = None
    """The slowest pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """How a tool that somebody installed ended."""

    code: int
    output: str


class Diagnostics(Protocol):
    """Uses the GPUs of this machine. Calls take seconds to minutes.

    They raise NotRunError where a test cannot be made, and TestFailedError where it could and
    the GPU did not survive it.
    """

    def touch(self, gpu: Gpu) -> None:
        """Make a context, write to memory and read it back."""
        ...

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        """Multiply matrices and compare every product with one that is known to be right."""
        ...

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        """Write patterns to a share of the free memory, and read them back."""
        ...

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        """Measure how fast each GPU copies: to and from the host, on itself, to the others."""
        ...

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        """Run a tool if it is installed."""
        ...
