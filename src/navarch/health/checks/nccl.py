"""Do the GPUs of a machine reduce together, right and fast?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.health.trial import WEEKLY, in_use, not_run
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

_BUS = re.compile(r"Avg bus bandwidth\s*:\s*([\d.]+)")
_WRONG = re.compile(r"Out of bounds values\s*:\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCheck:
    """Runs `all_reduce_perf` of the NCCL tests over all GPUs, where it is installed."""

    name: str = "nccl"
    interval: timedelta | None = WEEKLY

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Run it."""
        if view.diagnostics is None:
            yield not_run(self.name, "this machine has no way to use its GPUs")
            return
        try:
            gpus = view.gpus.list_gpus()
            if len(gpus) < 2:
                yield not_run(self.name, "there is only one GPU to reduce over")
                return
            if used := in_use(view, gpus):
                yield not_run(self.name, used)
                return
            arguments = ("-b", "1G", "-e", "1G", "-g", str(len(gpus)))
            run = view.diagnostics.tool("all_reduce_perf", *arguments, within_s=300.0)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
            return
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        yield self._judge(run.code, run.output)

    def _judge(self, code: int, output: str) -> CheckResult:
        bus, wrong = _BUS.search(output), _WRONG.search(output)
        if wrong is not None and int(wrong[1]):
            reason = f"{wrong[1]} numbers were reduced wrong"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if code != 0 or bus is None:
            last = output.strip().rpartition("\n")[2] or f"code {code}"
            return not_run(self.name, f"all_reduce_perf did not get through: {last}")
        return CheckResult(
            check=self.name, health=Health.HEALTHY, reason=f"{float(bus[1]):.0f} GB/s bus bandwidth"
        )
