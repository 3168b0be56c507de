"""The GPUs of a machine with everybody who tells of their errors: kernel log, tracepoint, NVML."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import structlog

from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.health.xid.fusion import Fusion, Observation, XidEvent
from navarch.health.xid.line import LineReader
from navarch.ports.checks import EventSource
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader
from navarch.ports.host import Bookmark, HostError, KernelLog

log = structlog.get_logger(__name__)

NVML = "nvml"
KMSG = "kmsg"
TEXT_MAX = 400
"""The longest line a driver prints, about. A finding is no place for more."""
NAME_MAX = 64
"""The kernel keeps fifteen characters of a process' name; the driver prints no more."""


class Witnesses:
    """A GpuReader whose events come from every source there is, each event once.

    The kernel's log goes on where an earlier life of the agent left it; a driver that does
    not answer takes NVML's events away, and no others.
    """

    def __init__(
        self,
        clock: Clock,
        reader: GpuReader,
        logs: Sequence[KernelLog],
        *,
        bookmark: Bookmark,
        boot_id: str,
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._logs = {source.name: (source, LineReader()) for source in logs}
        self._bookmark = bookmark
        self._boot_id = boot_id
        self._read_to = bookmark.load(boot_id)
        self._settled_to = self._read_to
        self._nvml_to = 0
        self._fusion = Fusion([*self._logs, NVML], began=clock.now())
        self._uuids: dict[str, str] = {}
        self._unsettled: dict[int, XidEvent] = {}
        self._made = 0
        self._turn = threading.Lock()
        """Readings are made by the probe's thread and by whoever waits for the log."""

    def sources(self) -> Sequence[EventSource]:
        """Return how much each source has seen, and missed."""
        overruns = {name: source.lost for name, (source, _) in self._logs.items()}
        return [replace(s, overrun=overruns.get(s.name, 0)) for s in self._fusion.sources]

    def filenos(self) -> list[int]:
        """Return what to wait on for news from the kernel."""
        numbers = [source.fileno() for source, _ in self._logs.values()]
        return [number for number in numbers if number >= 0]

    def hear(self) -> bool:
        """Read the kernel's news, without blocking; return whether any event is unsettled."""
        with self._turn:
            self._take(self._from_logs())
            return bool(self._unsettled)

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        gpus = self._reader.list_gpus()
        self._uuids.update({address(gpu.pci_bus_id): gpu.uuid for gpu in gpus if gpu.pci_bus_id})
        return gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return what a GPU is doing."""
        return self._reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
        return self._reader.health(gpu)

    def events(self) -> Sequence[GpuEvent]:
        """Return what has happened and is not settled yet, whoever saw it."""
        self._learn_addresses()
        with self._turn:
            self._take([*self._from_logs(), *self._from_driver()])
            return [self._told(self._unsettled[number]) for number in sorted(self._unsettled)]

    def settle(self, number: int) -> None:
        """Forget events up to `number`, and let the sources forget them."""
        with self._turn:
            self._unsettled = {n: e for n, e in self._unsettled.items() if n > number}
            self._settle_driver()
            self._settle_log()

    def release(self) -> None:
        """Let go of the driver, until somebody asks again: a GPU in use cannot be reset."""
        self._reader.close()

    def close(self) -> None:
        """Let go of everything."""
        for source, _ in self._logs.values():
            source.close()
        self._reader.close()

    def _take(self, observations: Sequence[Observation]) -> None:
        for event in self._fusion.see(observations, now=self._clock.now()):
            is_new = event.number > self._made
            # An event that was settled while it had no text may be decided otherwise by it, and
            # so may one that only now has a second witness.
            is_more = _brings_text(event) or _brings_witness(event)
            if is_new or event.number in self._unsettled or is_more:
                self._unsettled[event.number] = event
            self._made = max(self._made, event.number)

    def _from_logs(self) -> list[Observation]:
        found: list[Observation] = []
        for name, (source, reader) in self._logs.items():
            try:
                records = source.read()
            except HostError as error:
                log.warning("agent.log_unreadable", source=name, error=str(error))
                continue
            for record in records:
                if name == KMSG:
                    if record.sequence <= self._settled_to:
                        continue
                    self._read_to = max(self._read_to, record.sequence)
                line = reader.read(record.text) if record.from_kernel else None
                if line is not None:
                    device = address(line.pci) if line.pci else "unknown"
                    found.append(
                        Observation(
                            source=name,
                            at=record.at,
                            device=self._uuids.get(device, device),
                            code=line.code,
                            text=line.text[:TEXT_MAX],
                            pid=line.pid,
                            process=(line.name or "")[:NAME_MAX],
                            pci=device if line.pci else "",
                            place=record.sequence,
                        )
                    )
        return found

    def _from_driver(self) -> list[Observation]:
        try:
            events = self._reader.events()
        except GpuError:
            return []  # That the driver does not answer is for other checks to say.
        new = [event for event in events if event.number > self._nvml_to]
        self._nvml_to = max((event.number for event in new), default=self._nvml_to)
        return [
            Observation(
                source=NVML,
                at=event.at,
                device=event.gpu,
                code=event.code,
                text=event.text,
                place=event.number,
            )
            for event in new
        ]

    def _learn_addresses(self) -> None:
        """Learn which GPU is at which address, while the driver still knows."""
        if not self._uuids:
            try:
                self.list_gpus()
            except GpuError:
                return

    def _settle_driver(self) -> None:
        waiting = self._places(NVML)
        settled = min(waiting) - 1 if waiting else self._nvml_to
        if settled > 0:
            self._reader.settle(settled)

    def _settle_log(self) -> None:
        waiting = self._places(KMSG)
        settled = min(waiting) - 1 if waiting else self._read_to
        if settled <= self._settled_to:
            return
        self._settled_to = settled
        try:
            self._bookmark.save(self._boot_id, settled)
        except HostError as error:
            log.warning("agent.no_bookmark", error=str(error))

    def _places(self, source: str) -> list[int]:
        return [
            observation.place
            for event in self._unsettled.values()
            for observation in event.observations
            if observation.source == source
        ]

    def _told(self, event: XidEvent) -> GpuEvent:
        return GpuEvent(
            number=event.number,
            at=event.at,
            gpu=event.device,
            code=event.code,
            text=event.text,
            pid=event.pid,
            process=event.process,
            pci=event.pci,
            sources=tuple(sorted(event.sources)),
        )


def address(pci: str) -> str:
    """Return a PCI address in the one form that all sources can be compared in.

    NVML writes `00000000:3B:00.0`, the driver's log `0000:3b:00`, the tracepoint adds `.0`.
    """
    domain, _, rest = pci.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest.partition('.')[0]}"


def _brings_witness(event: XidEvent) -> bool:
    """Return whether the latest observation is the first by its source."""
    return event.observations[-1].source not in {s.source for s in event.observations[:-1]}


def _brings_text(event: XidEvent) -> bool:
    """Return whether the latest observation is the first that has a text."""
    return bool(event.observations[-1].text) and not any(s.text for s in event.observations[:-1])
