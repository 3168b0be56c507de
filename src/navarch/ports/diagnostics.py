"""The port for tests that need the GPUs to be idle."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.inventory import Gpu


class NotRunError(NavarchError):
    """The test could not run, for the reason given, which is not a fault of the GPU."""


class TestFailedError(NavarchError):
    """The GPU, or its driver, failed while it was tested."""

    __test__ = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnFigures:
    """The result of multiplying matrices."""

    tflops: float
    seconds: float
    products: int
    wrong: int
    """The number of wrong elements."""
    precision: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFigures:
    """The result of writing patterns to memory and reading them back."""

    tested_bytes: int
    patterns: int
    wrong: int
    """The number of words that were read back changed."""
    first_wrong: int | None = None
    """The offset of the first of them, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFigures:
    """Copy bandwidths in units of 1e9 bytes per second; None for a path that does not exist."""

    to_device_gbs: float | None = None
    from_device_gbs: float | None = None
    on_device_gbs: float | None = None
    """Counts both read and written bytes, as usual for memory bandwidths."""
    between_devices_gbs: float | None = None
    """The slowest pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """The result of an installed tool."""

    code: int
    output: str


class Diagnostics(Protocol):
    """Uses the GPUs of this machine. Calls take seconds to minutes.

    They raise NotRunError if a test cannot run, and TestFailedError if the GPU or its driver
    fails during it.
    """

    def touch(self, gpu: Gpu) -> None:
        """Create a context, write to memory and read it back."""

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        """Multiply matrices and compare every product with a known one."""

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        """Write patterns to a share of the free memory, and read them back."""

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        """Measure the copy bandwidth of each GPU: host, own memory, other GPUs."""

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        """Run a tool if it is installed."""
