"""Writing down what a machine says, for others to replay."""

from collections.abc import Callable, Iterator

import msgspec

from navarch.agent.recording.recording import Record, Recording, write_header, write_record
from navarch.core.inventory import Gpu
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import HostError, KernelLog


class Recorder:
    """Takes a machine down: samples, the driver's events, the kernel's log. It only reads."""

    def __init__(
        self,
        clock: Clock,
        gpus: GpuReader,
        log: KernelLog | None,
        write: Callable[[bytes], object],
        *,
        boot_id: str,
    ) -> None:
        self._clock = clock
        self._gpus = gpus
        self._log = log
        self._write = write
        self._boot_id = boot_id
        self._began = clock.monotonic()
        self.records = 0

    def begin(self) -> None:
        """Write what the recording is of. What the kernel said before is not part of it."""
        try:
            gpus = tuple(self._gpus.list_gpus())
        except GpuError:
            gpus = ()
        header = Recording(started=self._clock.now(), boot_id=self._boot_id, gpus=gpus, records=())
        self._write(write_header(header))
        if self._log is not None:
            while self._log.read():
                continue

    def listen(self) -> None:
        """Write what the kernel and the driver have said since the last call."""
        for record in (*self._kernel(), *self._events()):
            self._put(record)

    def sample(self) -> None:
        """Write what every GPU says of itself now."""
        try:
            gpus = self._gpus.list_gpus()
        except GpuError as error:
            self._put(Record(t=self._t(), kind="trouble", facts={"why": str(error)}))
            return
        for gpu in gpus:
            self._put(self._sample(gpu))

    def note(self, text: str) -> None:
        """Write what whoever makes the recording has to say."""
        self._put(Record(t=self._t(), kind="phase", facts={"name": text}))

    def _sample(self, gpu: Gpu) -> Record:
        began = self._clock.monotonic()
        facts: dict[str, object] = {"gpu": gpu.index}
        try:
            health, metrics = self._gpus.health(gpu), self._gpus.metrics(gpu)
            facts |= {
                "health": {k: v for k, v in _plain(health).items() if v is not None},
                "metrics": _plain(metrics),
            }
        except GpuError as error:
            facts["trouble"] = str(error)
        facts["cost_us"] = round((self._clock.monotonic() - began) * 1e6)
        return Record(t=self._t(), kind="nvml", facts=facts)

    def _kernel(self) -> Iterator[Record]:
        try:
            records = () if self._log is None else self._log.read()
        except HostError as error:
            yield Record(t=self._t(), kind="trouble", facts={"why": str(error)})
            return
        for record in records:
            yield Record(t=self._t(), kind="kmsg", facts={"raw": record.raw})

    def _events(self) -> Iterator[Record]:
        try:
            events = self._gpus.events()
        except GpuError:
            return
        indexes = {gpu.uuid: gpu.index for gpu in self._gpus.list_gpus()} if events else {}
        for event in events:
            facts = {"gpu": indexes.get(event.gpu, -1), "type": 8, "data": event.code}
            yield Record(t=self._t(), kind="nvml_event", facts=facts)
            self._gpus.settle(event.number)

    def _put(self, record: Record) -> None:
        self._write(write_record(record))
        self.records += 1

    def _t(self) -> float:
        return round(self._clock.monotonic() - self._began, 4)


def _plain(value: object) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(value)
    return plain
