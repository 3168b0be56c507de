"""What a server remembers of its last life besides its store: measurements, which may be lost."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import structlog

from navarch.control.loads import Loads
from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.ports.offload import Offload
from navarch.stores.snapshot import read_whole, write_whole
from navarch.stores.telemetry import TelemetryTable

log = structlog.get_logger(__name__)

READINGS = "readings"
LOADS = "loads"

LOADS_EVERY = timedelta(minutes=1)
"""How much of the pools' history a crash may cost: a fraction of the quarter it is made of."""


class Snapshots:
    """The newest readings of every node, and the history of every pool's load."""

    def __init__(
        self, clock: Clock, data_dir: Path, *, nodes: Iterable[NodeId], silence: timedelta
    ) -> None:
        """Begin with what was saved, as far as it makes sense."""
        self._clock = clock
        self._readings, self._history = data_dir / READINGS, data_dir / LOADS
        self.columns = TelemetryTable(clock, timeout=silence, nodes=list(nodes))
        saved = read_whole(self._readings)
        if saved is not None and not self.columns.restore(saved):
            log.warning("server.readings_lost", path=str(self._readings))
        self.loads = Loads()
        saved = read_whole(self._history)
        if saved is not None and not self.loads.restore(saved):
            log.warning("server.loads_lost", path=str(self._history))
        self._loads_due = clock.now() + LOADS_EVERY

    def write(self) -> None:
        """Save everything, and wait for it."""
        write_whole(self._history, self.loads.dump())
        write_whole(self._readings, self.columns.dump())

    async def save(self, offload: Offload) -> None:
        """Save what is due."""
        data = self.columns.dump()
        await offload.run(lambda: write_whole(self._readings, data))
        if self._clock.now() >= self._loads_due:
            self._loads_due = self._clock.now() + LOADS_EVERY
            loads = self.loads.dump()
            await offload.run(lambda: write_whole(self._history, loads))
