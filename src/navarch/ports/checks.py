"""The port for health checks of one machine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.health import CheckResult, History
from navarch.core.inventory import MachineKind
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Host

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
