"""Health checks: opinions about one machine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.health import CheckResult
from navarch.core.history import History
from navarch.core.machine import MachineKind
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Host

MISSED_IN_A_ROW = 3
"""A source that has missed so many events in a row, which others saw, is called silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """One of those who tell of errors, and how well it sees."""

    name: str
    lines: int = 0
    """Sightings."""
    events: int = 0
    """Events among whose sightings is at least one of this source."""
    missed: int = 0
    """Events that others saw and this one did not."""
    missed_in_a_row: int = 0
    overrun: int = 0
    """How many times it was overwritten before we read it."""
    last_at: datetime | None = None

    @property
    def silent(self) -> bool:
        """Whether it should have spoken and has not."""
        return self.missed_in_a_row >= MISSED_IN_A_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """What a check may look at."""

    now: datetime
    gpus: GpuReader
    host: Host
    gpus_expected: int | None = None
    """How many GPUs a machine of this kind has, where somebody said so."""
    sources: Sequence[EventSource] = ()
    """Who tells of errors on this machine."""
    kind: MachineKind | None = None
    """What the catalogue says of machines of this kind."""
    history: History = field(default_factory=History)
    """What counters said in earlier rounds."""
    diagnostics: Diagnostics | None = None
    """Tests that use the GPUs; None where the machine has none that could be used."""


class HealthCheck(Protocol):
    """Looks at the machine once and says what it found. Pure, given its view.

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
        ...

    @property
    def interval(self) -> timedelta | None:
        """How often it runs; None for as often as the control plane asks.

        Zero is for after a start only: again and again until it passes, then no more.
        """
        ...

    def run(self, view: MachineView) -> Iterable[CheckResult]:
        """Look once. May block; raises what the view's readers raise, at worst."""
        ...
