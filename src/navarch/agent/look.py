"""One look at the GPUs: what a round of checks sees, and nothing that happens meanwhile."""

from collections.abc import Sequence

from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader


class Look:
    """A GpuReader for one round.

    It shows every check the same list, the same readings and the same events, and remembers
    which events it showed: those, and no later ones, may be settled once the round is written
    down. A GPU, or a driver, that does not answer is not asked again by the next check.
    """

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self._events: Sequence[GpuEvent] | None = None
        self._keep = False
        self._health: dict[str, GpuHealth | GpuError] = {}
        self._silent: GpuError | None = None
        self.gpus: tuple[Gpu, ...] | None = None
        """What was listed, if anybody asked and the driver answered."""

    @property
    def events_shown(self) -> int:
        """The number up to which events may be settled; zero for none."""
        return self._events[-1].number if self._events and not self._keep else 0

    @property
    def event_count(self) -> int:
        """How many events were shown."""
        return len(self._events or ())

    def keep_events(self) -> None:
        """Settle none: a check that failed may not have told of them."""
        self._keep = True

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        if self._silent is not None:
            raise self._silent
        if self.gpus is None:
            try:
                self.gpus = tuple(self._reader.list_gpus())
            except GpuError as error:
                self._silent = error
                raise
        return self.gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return what a GPU is doing."""
        return self._reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
        if gpu.uuid not in self._health:
            self._health[gpu.uuid] = self._read(gpu)
        found = self._health[gpu.uuid]
        if isinstance(found, GpuError):
            raise found
        return found

    def _read(self, gpu: Gpu) -> GpuHealth | GpuError:
        try:
            return self._reader.health(gpu)
        except GpuError as error:
            return error

    def events(self) -> Sequence[GpuEvent]:
        """Return what has happened."""
        if self._events is None:
            self._events = tuple(self._reader.events())
        return self._events

    def settle(self, number: int) -> None:
        """Do nothing: checks only look."""

    def close(self) -> None:
        """Do nothing: checks only look."""
