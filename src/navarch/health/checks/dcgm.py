"""Check GPUs with NVIDIA's DCGM diagnostics."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.health.checks.issues import WEEKLY, in_use, not_run
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

_ROW = re.compile(r"^\|\s*(?P<test>[^|]+?)\s*\|\s*(?P<word>Pass|Fail|Skip)\b[^|]*\|", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmCheck:
    """Runs `dcgmi diag`, if it is installed, and reports which of its tests failed."""

    name: str = "dcgm"
    interval: timedelta | None = WEEKLY
    level: int = 2

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Run the diagnostics."""
        if view.diagnostics is None:
            yield not_run(self.name, "this machine has no way to use its GPUs")
            return
        try:
            if used := in_use(view, view.gpus.list_gpus()):
                yield not_run(self.name, used)
                return
            run = view.diagnostics.tool("dcgmi", "diag", "-r", str(self.level), within_s=1800.0)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
            return
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        yield self._read_output(run.code, run.output)

    def _read_output(self, code: int, output: str) -> CheckResult:
        rows = _ROW.findall(output)
        failed = [test for test, word in rows if word == "Fail"]
        if failed:
            reason = f"dcgmi diag failed: {', '.join(failed)}"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if code != 0 or not rows:
            last = output.strip().rpartition("\n")[2] or f"code {code}"
            return not_run(self.name, f"dcgmi diag did not finish: {last}")
        passed = sum(word == "Pass" for _, word in rows)
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=f"{passed} tests passed")
