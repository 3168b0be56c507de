"""Check collective operations between GPUs of one or several machines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.errors import InvalidError
from navarch.core.health import CheckResult, Health
from navarch.health.checks.issues import WEEKLY, in_use, not_run
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

_PEER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*:[1-9]\d{0,3}")
_BUS = re.compile(r"Avg bus bandwidth\s*:\s*([\d.]+)")
_WRONG = re.compile(r"Out of bounds values\s*:\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCheck:
    """Runs `all_reduce_perf` of the NCCL tests over all GPUs, if it is installed.

    `peers` are further machines, each as address and GPU count (`10.0.0.2:8`). With peers, `mpirun`
    starts one process per GPU. The caller must make sure that the peers are idle.
    """

    name: str = "nccl"
    interval: timedelta | None = WEEKLY
    peers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject anything but HOST:GPUS: it could be taken for an option or a command."""
        for peer in self.peers:
            if not _PEER.fullmatch(peer):
                raise InvalidError(f"{peer!r} is not HOST:GPUS, as in 10.0.0.2:8")

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Run the test."""
        if view.diagnostics is None:
            yield not_run(self.name, "this machine has no way to use its GPUs")
            return
        try:
            gpus = view.gpus.list_gpus()
            if len(gpus) < 2 and not self.peers:
                yield not_run(self.name, "there is only one GPU to reduce over")
                return
            if used := in_use(view, gpus):
                yield not_run(self.name, used)
                return
            tool, *arguments = self._command(len(gpus))
            run = view.diagnostics.tool(tool, *arguments, within_s=300.0)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
            return
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        yield self._read_output(run.code, run.output)

    def _command(self, gpus: int) -> Sequence[str]:
        sizes = ("-b", "1G", "-e", "1G", "-g")
        if not self.peers:
            return "all_reduce_perf", *sizes, str(gpus)
        hosts = (f"localhost:{gpus}", *self.peers)
        count = gpus + sum(int(peer.rpartition(":")[2]) for peer in self.peers)
        start = ("mpirun", "--allow-run-as-root", "-np", str(count), "-H", ",".join(hosts))
        return *start, "all_reduce_perf", *sizes, "1"

    def _read_output(self, code: int, output: str) -> CheckResult:
        bus, wrong = _BUS.search(output), _WRONG.search(output)
        if wrong is not None and int(wrong[1]):
            reason = f"{wrong[1]} values of the all-reduce were wrong"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if code != 0 or bus is None:
            last = output.strip().rpartition("\n")[2] or f"code {code}"
            return not_run(self.name, f"all_reduce_perf did not finish: {last}")
        among = f" among {1 + len(self.peers)} nodes" if self.peers else ""
        words = f"{float(bus[1]):.0f} GB/s bus bandwidth{among}"
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=words)
