"""Check collective operations between GPUs of one or several machines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.errors import InvalidError
from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import ActiveCheck, not_run
from navarch.ports.diagnostics import Diagnostics

_PEER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*:[1-9]\d{0,3}")
_BUS = re.compile(r"Avg bus bandwidth\s*:\s*([\d.]+)")
_WRONG = re.compile(r"Out of bounds values\s*:\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCheck(ActiveCheck):
    """Runs `all_reduce_perf` of the NCCL tests over all GPUs, if it is installed.

    `peers` are further machines, each as address and GPU count (`10.0.0.2:8`). With peers, `mpirun`
    starts one process per GPU. The caller must make sure that the peers are idle.
    """

    name: str = "nccl"
    peers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject anything but HOST:GPUS: it could be taken for an option or a command."""
        for peer in self.peers:
            if not _PEER.fullmatch(peer):
                raise InvalidError(f"{peer!r} is not HOST:GPUS, as in 10.0.0.2:8")

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        if len(gpus) < 2 and not self.peers:
            return not_run(self.name, "there is only one GPU to reduce over")
        tool, *arguments = self._command(len(gpus))
        run = diagnostics.tool(tool, *arguments, within_s=300.0)
        bus, wrong = _BUS.search(run.output), _WRONG.search(run.output)
        if wrong is not None and int(wrong[1]):
            reason = f"{wrong[1]} values of the all-reduce were wrong"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if run.code != 0 or bus is None:
            last = run.output.strip().rpartition("\n")[2] or f"code {run.code}"
            return not_run(self.name, f"all_reduce_perf did not finish: {last}")
        among = f" among {1 + len(self.peers)} nodes" if self.peers else ""
        words = f"{float(bus[1]):.0f} GB/s bus bandwidth{among}"
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=words)

    def _command(self, gpus: int) -> Sequence[str]:
        sizes = ("-b", "1G", "-e", "1G", "-g")
        if not self.peers:
            return "all_reduce_perf", *sizes, str(gpus)
        hosts = (f"localhost:{gpus}", *self.peers)
        count = gpus + sum(int(peer.rpartition(":")[2]) for peer in self.peers)
        start = ("mpirun", "--allow-run-as-root", "-np", str(count), "-H", ",".join(hosts))
        return *start, "all_reduce_perf", *sizes, "1"
