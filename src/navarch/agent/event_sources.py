"""GPU errors from all sources of a machine: kernel log, tracepoint and NVML."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import structlog

from navarch.agent.agent import Agent
from navarch.core.instance import Gpu, GpuMetrics
from navarch.health.kernel_faults import parse_fault
from navarch.health.xid.fusion import Fusion, Observation, XidEvent
from navarch.health.xid.line import LineReader
from navarch.ports.checks import EventSource
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader
from navarch.ports.host import Bookmark, HostError, KernelLog, KernelRecord

log = structlog.get_logger(__name__)

NVML = "nvml"
KMSG = "kmsg"
TEXT_MAX = 400
"""About the longest line a driver prints; longer text is cut."""
NAME_MAX = 64
"""The kernel keeps fifteen characters of a process name; longer names are cut."""

XID_CHECK = "xid"
PAUSE_S = 0.02
"""Limits reads of the kernel log to fifty a second."""


class EventSources:
    """A GpuReader that merges the events of all sources, so that each event appears once.

    Reading the kernel log resumes where the previous run of the agent stopped. An unresponsive
    driver only affects NVML's events.
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
        self._last_number = 0
        self._lock = threading.Lock()
        """Guards state shared by the probe's thread and the event loop's log reader."""

    def sources(self) -> Sequence[EventSource]:
        """Return each source with the number of events it saw and missed."""
        overruns = {name: source.lost for name, (source, _) in self._logs.items()}
        return [replace(s, overrun=overruns.get(s.name, 0)) for s in self._fusion.sources]

    def filenos(self) -> list[int]:
        """Return the file descriptors that become readable on new kernel records."""
        numbers = [source.fileno() for source, _ in self._logs.values()]
        return [number for number in numbers if number >= 0]

    def poll_kernel_logs(self) -> bool:
        """Read new kernel records without blocking; return whether any event is unsettled."""
        with self._lock:
            self._merge(self._from_logs())
            return bool(self._unsettled)

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        gpus = self._reader.list_gpus()
        self._uuids.update({address(gpu.pci_bus_id): gpu.uuid for gpu in gpus if gpu.pci_bus_id})
        return gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return a GPU's metrics."""
        return self._reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return a GPU's health."""
        return self._reader.health(gpu)

    def events(self) -> Sequence[GpuEvent]:
        """Return the unsettled events of all sources."""
        if not self._uuids:
            # Load the PCI addresses of the GPUs while the driver still responds.
            with contextlib.suppress(GpuError):
                self.list_gpus()
        with self._lock:
            self._merge([*self._from_logs(), *self._from_driver()])
            return [
                GpuEvent(
                    number=number,
                    at=event.at,
                    gpu=event.device,
                    code=event.code,
                    text=event.text,
                    pid=event.pid,
                    process=event.process,
                    pci=event.pci,
                    sources=tuple(sorted(event.sources)),
                )
                for number, event in sorted(self._unsettled.items())
            ]

    def settle(self, number: int) -> None:
        """Settle events up to `number`, here and at their sources."""
        with self._lock:
            self._unsettled = {n: e for n, e in self._unsettled.items() if n > number}
            driver_to = min(self._places(NVML), default=self._nvml_to + 1) - 1
            if driver_to > 0:
                self._reader.settle(driver_to)
            log_to = min(self._places(KMSG), default=self._read_to + 1) - 1
            if log_to <= self._settled_to:
                return
            self._settled_to = log_to
            try:
                self._bookmark.save(self._boot_id, log_to)
            except HostError as error:
                log.warning("agent.no_bookmark", error=str(error))

    def release_driver(self) -> None:
        """Close the driver until the next reading: a GPU in use cannot be reset."""
        self._reader.close()

    def close(self) -> None:
        """Close all sources and the driver."""
        for source, _ in self._logs.values():
            source.close()
        self._reader.close()

    def _merge(self, observations: Sequence[Observation]) -> None:
        for event in self._fusion.see(observations, now=self._clock.now()):
            is_new = event.number > self._last_number
            # A settled event returns if it now has a text or another source: either may change
            # the verdict.
            *earlier, latest = event.observations
            adds_text = bool(latest.text) and not any(seen.text for seen in earlier)
            adds_source = latest.source not in {seen.source for seen in earlier}
            if is_new or event.number in self._unsettled or adds_text or adds_source:
                self._unsettled[event.number] = event
            self._last_number = max(self._last_number, event.number)

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
                if not record.from_kernel:
                    continue
                line = reader.read(record.text)
                fault = parse_fault(record.text) if line is None and name == KMSG else None
                if line is not None:
                    observation = self._observation(name, record, line.code, line.pci, line.text)
                    process = (line.name or "")[:NAME_MAX]
                    found.append(replace(observation, pid=line.pid, process=process))
                elif fault is not None:
                    found.append(self._observation(name, record, *fault))
        return found

    def _observation(
        self, source: str, record: KernelRecord, code: int, pci: str | None, text: str
    ) -> Observation:
        device = address(pci) if pci else "unknown"
        return Observation(
            source=source,
            at=record.at,
            device=self._uuids.get(device, device),
            code=code,
            text=text[:TEXT_MAX],
            pci=device if pci else "",
            place=record.sequence,
        )

    def _from_driver(self) -> list[Observation]:
        try:
            events = self._reader.events()
        except GpuError:
            return []  # Other checks report an unresponsive driver.
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

    def _places(self, source: str) -> list[int]:
        return [
            observation.place
            for event in self._unsettled.values()
            for observation in event.observations
            if observation.source == source
        ]


def address(pci: str) -> str:
    """Return a PCI address in a form that is comparable across sources.

    NVML writes `00000000:3B:00.0`, the driver's log `0000:3b:00`, the tracepoint adds `.0`.
    """
    domain, _, rest = pci.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest.partition('.')[0]}"


@contextlib.contextmanager
def wake_on_kernel_log(agent: Agent, event_sources: EventSources) -> Iterator[None]:
    """Run the XID check as soon as the kernel logs a GPU error, inside the running loop.

    Other kernel records are read and dropped without waking the agent.
    """
    loop = asyncio.get_running_loop()
    files = event_sources.filenos()
    closed = False

    def on_readable(file: int) -> None:
        loop.remove_reader(file)
        if event_sources.poll_kernel_logs():
            agent.run_check(XID_CHECK)
        loop.call_later(PAUSE_S, watch, file)

    def watch(file: int) -> None:
        if not closed:
            loop.add_reader(file, on_readable, file)

    for file in files:
        watch(file)
    try:
        yield
    finally:
        closed = True
        for file in files:
            loop.remove_reader(file)
