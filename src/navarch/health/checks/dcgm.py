"""Check GPUs with NVIDIA's DCGM diagnostics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import ActiveCheck, not_run
from navarch.ports.diagnostics import Diagnostics

_ROW = re.compile(r"^\|\s*(?P<test>[^|]+?)\s*\|\s*(?P<word>Pass|Fail|Skip)\b[^|]*\|", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmCheck(ActiveCheck):
    """Runs `dcgmi diag`, if it is installed, and reports which of its tests failed."""

    name: str = "dcgm"
    level: int = 2

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        del gpus
        run = diagnostics.tool("dcgmi", "diag", "-r", str(self.level), within_s=1800.0)
        rows = _ROW.findall(run.output)
        failed = [test for test, word in rows if word == "Fail"]
        if failed:
            reason = f"dcgmi diag failed: {', '.join(failed)}"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if run.code != 0 or not rows:
            last = run.output.strip().rpartition("\n")[2] or f"code {run.code}"
            return not_run(self.name, f"dcgmi diag did not finish: {last}")
        passed = sum(word == "Pass" for _, word in rows)
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=f"{passed} tests passed")
