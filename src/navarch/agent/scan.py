"""A local scan: every check once, without a control plane."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from navarch.agent.check_runner import GpuSnapshot
from navarch.core.errors import NavarchError
from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu, MachineKind
from navarch.ports.checks import EventSource, HealthCheck, MachineView
from navarch.ports.clock import Clock
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuHealth, GpuReader
from navarch.ports.host import Host, HostError


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
        gpus=tuple(_gpus(snapshot)),
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


def _gpus(snapshot: GpuSnapshot) -> Iterator[ScannedGpu]:
    try:
        gpus = snapshot.list_gpus()
    except GpuError:
        return
    for gpu in gpus:
        try:
            yield ScannedGpu(gpu=gpu, health=snapshot.health(gpu))
        except GpuError as error:
            yield ScannedGpu(gpu=gpu, trouble=str(error))
