"""The ports for health checks, and for tests of idle GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from navarch.core.errors import NavarchError
from navarch.core.health import CheckResult, History
from navarch.core.instance import Gpu, MachineKind
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Host


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


MISSED_IN_A_ROW = 3
"""A source that has missed this many events in a row, which others reported, is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """A source of GPU errors, with counters of what it reported and missed."""

    name: str
    lines: int = 0
    """Observations."""
    events: int = 0
    """Events that this source has reported."""
    missed: int = 0
    """Events that only other sources have reported."""
    missed_in_a_row: int = 0
    overrun: int = 0
    """How many times its buffer was overwritten before it was read."""
    last_at: datetime | None = None

    @property
    def silent(self) -> bool:
        """Whether it missed events that other sources reported."""
        return self.missed_in_a_row >= MISSED_IN_A_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """The input of a check."""

    now: datetime
    gpus: GpuReader
    host: Host
    gpus_expected: int | None = None
    """The configured number of GPUs, if there is one."""
    sources: Sequence[EventSource] = ()
    """The sources of GPU errors on this machine."""
    kind: MachineKind | None = None
    """The catalogue entry of this type of machine."""
    history: History = field(default_factory=History)
    """The values of counters in earlier rounds."""
    diagnostics: Diagnostics | None = None
    """Tests that use the GPUs; None if the machine has no usable GPUs."""


class HealthCheck(Protocol):
    """Examines a machine once and returns results. Pure, given its view.

    ```python
    @dataclass(frozen=True, slots=True, kw_only=True)
    class MemoryCheck:
        name: str = "memory"
        interval: timedelta | None = timedelta(minutes=5)

        def run(self, view: MachineView) -> Iterator[CheckResult]:
            available = view.host.memory().available_bytes
            health = Health.HEALTHY if available > 1 << 30 else Health.DEGRADED
            yield CheckResult(check=self.name, health=health, reason=f"{available} bytes left")
    ```
    """

    @property
    def name(self) -> str:
        """The check's name, and the first part of the names of its results."""

    @property
    def interval(self) -> timedelta | None:
        """How often it runs; None for the interval of the control plane.

        Zero means only after a start: repeatedly until it passes, then no more.
        """

    def run(self, view: MachineView) -> Iterable[CheckResult]:
        """Run the check once. May block; raises only what the readers of the view raise."""


@runtime_checkable
class VersionedCheck(Protocol):
    """An ability: the check has a version of its own, because it does not come with the agent.

    If its results change with a new version, nodes with that version are compared with the others.
    """

    @property
    def version(self) -> str:
        """The version: letters, digits, dots, dashes, plus signs and underscores, at most 64."""
