"""Recordings of a machine: JSON lines, described in docs/reference/recordings.md."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from navarch.agent.check_runner import GpuSnapshot
from navarch.core.errors import NavarchError
from navarch.core.health import CheckResult, Health
from navarch.core.instance import Gpu, MachineKind
from navarch.ports.checks import Diagnostics, EventSource, HealthCheck, MachineView
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuHealth, GpuReader
from navarch.ports.host import Host, HostError, KernelLog

VERSION = 1
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
"""The assumed start of a recording without a header."""


class RecordingError(NavarchError):
    """The file is not a readable recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One reading, taken `t` seconds into the recording."""

    t: float
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The readings of a machine over a period of time."""

    started: datetime
    boot_id: str
    gpus: tuple[Gpu, ...]
    records: tuple[Record, ...]

    @property
    def length(self) -> timedelta:
        """The time of the last record."""
        return timedelta(seconds=max((record.t for record in self.records), default=0.0))

    def of(self, kind: str) -> list[Record]:
        """Return the records of one kind, in order."""
        return [record for record in self.records if record.kind == kind]


def read_recording(lines: Iterable[bytes]) -> Recording:
    """Return the recording in `lines`; the header line is optional."""
    records: list[Record] = []
    header: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            facts = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise RecordingError(f"line {number} is not a JSON object: {error}") from error
        if "navarch_recording" in facts:
            header = facts
            if header["navarch_recording"] != VERSION:
                raise RecordingError(f"version {header['navarch_recording']} is not supported")
            continue
        try:
            t, kind = float(facts.pop("t")), str(facts.pop("kind"))
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(f"line {number} has no time or no kind") from error
        records.append(Record(t=t, kind=kind, facts=facts))
    started = header.get("started")
    return Recording(
        started=datetime.fromisoformat(started) if started else LONG_AGO,
        boot_id=str(header.get("boot_id", "recorded")),
        gpus=_gpus(header.get("gpus"), records),
        records=tuple(records),
    )


def write_header(recording: Recording) -> bytes:
    """Return the first line of a recording."""
    return _line(
        {
            "navarch_recording": VERSION,
            "started": recording.started.isoformat(),
            "boot_id": recording.boot_id,
            "gpus": recording.gpus,
        }
    )


def write_record(record: Record) -> bytes:
    """Return the line of one record."""
    return _line({"t": record.t, "kind": record.kind, **record.facts})


def write_recording(recording: Recording) -> Iterator[bytes]:
    """Yield every line of a recording."""
    yield write_header(recording)
    yield from map(write_record, recording.records)


def _line(facts: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(facts) + b"\n"


def _gpus(listed: object, records: Sequence[Record]) -> tuple[Gpu, ...]:
    """Return the GPUs of the header, or those derived from the records if there is none."""
    if listed is not None:
        try:
            return msgspec.convert(listed, tuple[Gpu, ...])
        except msgspec.ValidationError as error:
            raise RecordingError(f"invalid GPUs in the header: {error}") from error
    host = next((record.facts for record in records if record.kind == "host"), {})
    count = max((int(r.facts.get("gpu", 0)) + 1 for r in records if r.kind == "nvml"), default=0)
    # The driver logs the address and UUID of each GPU before its first XID.
    marker = "NVRM: GPU at PCI:"
    lines = [str(record.facts.get("raw", "")) for record in records if record.kind == "kmsg"]
    announced = [line.partition(marker)[2] for line in lines if marker in line]
    named: dict[int, tuple[str, str]] = {}
    for index, line in enumerate(announced):
        place, _, uuid = line.partition(": ")
        named[index] = (f"{place}.0", uuid)
    return tuple(
        Gpu(
            index=index,
            uuid=named.get(index, ("", f"GPU-recorded-{index}"))[1],
            name=str(host.get("name", "")),
            pci_bus_id=named.get(index, ("", ""))[0],
            driver_version=str(host.get("driver", "")),
        )
        for index in range(count)
    )


class Recorder:
    """Records a machine: GPU samples, driver events and the kernel log. It only reads."""

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
        """Write the header, and skip the kernel records from before the recording."""
        try:
            gpus = tuple(self._gpus.list_gpus())
        except GpuError:
            gpus = ()
        header = Recording(started=self._clock.now(), boot_id=self._boot_id, gpus=gpus, records=())
        self._write(write_header(header))
        if self._log is not None:
            while self._log.read():
                continue

    def poll(self) -> None:
        """Write the kernel records and driver events since the last call."""
        try:
            for line in () if self._log is None else self._log.read():
                self._append("kmsg", {"raw": line.raw})
        except HostError as error:
            self._append("trouble", {"why": str(error)})
        try:
            events = self._gpus.events()
        except GpuError:
            return
        indexes = {gpu.uuid: gpu.index for gpu in self._gpus.list_gpus()} if events else {}
        for event in events:
            facts = {"gpu": indexes.get(event.gpu, -1), "type": 8, "data": event.code}
            self._append("nvml_event", facts)
            self._gpus.settle(event.number)

    def sample(self) -> None:
        """Write a sample of every GPU."""
        try:
            gpus = self._gpus.list_gpus()
        except GpuError as error:
            self._append("trouble", {"why": str(error)})
            return
        for gpu in gpus:
            began = self._clock.monotonic()
            facts: dict[str, object] = {"gpu": gpu.index}
            try:
                health = msgspec.to_builtins(self._gpus.health(gpu))
                metrics = msgspec.to_builtins(self._gpus.metrics(gpu))
                facts["health"] = {k: v for k, v in health.items() if v is not None}
                facts["metrics"] = metrics
            except GpuError as error:
                facts["trouble"] = str(error)
            facts["cost_us"] = round((self._clock.monotonic() - began) * 1e6)
            self._append("nvml", facts)

    def _append(self, kind: str, facts: Mapping[str, object]) -> None:
        t = round(self._clock.monotonic() - self._began, 4)
        self._write(write_record(Record(t=t, kind=kind, facts=facts)))
        self.records += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedGpu:
    """A GPU with its health, or the error that prevented the reading."""

    gpu: Gpu
    health: GpuHealth | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The results of one scan."""

    host: str
    kernel: str
    results: tuple[CheckResult, ...]
    gpus: tuple[ScannedGpu, ...] = ()
    sources: tuple[EventSource, ...] = ()
    """The sources of GPU errors, with their counts."""

    @property
    def passed(self) -> bool:
        """Whether no check found the machine unhealthy."""
        return all(result.health is not Health.UNHEALTHY for result in self.results)


def scan_machine(
    clock: Clock,
    gpus: GpuReader,
    host: Host,
    checks: Sequence[HealthCheck],
    *,
    gpus_expected: int | None = None,
    kind: MachineKind | None = None,
    diagnostics: Diagnostics | None = None,
    sources: Callable[[], Sequence[EventSource]] = tuple,
) -> Scan:
    """Run `checks` in order; a check that fails does not stop the scan."""
    snapshot = GpuSnapshot(gpus)
    view = MachineView(
        now=clock.now(),
        gpus=snapshot,
        host=host,
        gpus_expected=gpus_expected,
        kind=kind,
        diagnostics=diagnostics,
    )
    results = tuple(result for check in checks for result in run_check_safely(check, view))
    hostname = kernel = ""
    with contextlib.suppress(HostError):
        hostname = host.hostname()
    with contextlib.suppress(HostError):
        kernel = host.kernel_version()
    return Scan(
        host=hostname,
        kernel=kernel,
        results=results,
        gpus=tuple(_scanned_gpus(snapshot)),
        sources=tuple(sources()),
    )


def run_check_safely(check: HealthCheck, view: MachineView) -> list[CheckResult]:
    """Run one check; return an error it raises as its result."""
    try:
        return list(check.run(view))
    except NavarchError as error:
        return [CheckResult(check=check.name, health=Health.UNHEALTHY, reason=str(error))]
    except Exception as error:  # noqa: BLE001 - a broken check is a finding
        reason = f"the check itself failed: {error!r}"
        return [CheckResult(check=check.name, health=Health.UNKNOWN, reason=reason)]


def _scanned_gpus(snapshot: GpuSnapshot) -> Iterator[ScannedGpu]:
    try:
        gpus = snapshot.list_gpus()
    except GpuError:
        return
    for gpu in gpus:
        try:
            yield ScannedGpu(gpu=gpu, health=snapshot.health(gpu))
        except GpuError as error:
            yield ScannedGpu(gpu=gpu, trouble=str(error))
