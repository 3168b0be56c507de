"""Do bytes move as fast as they should?"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.health.opinion import Opinion, conclude, degraded
from navarch.health.trial import WEEKLY, in_use, not_run
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import CopyFigures, Diagnostics, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

SLOW = 0.7
"""A card that moves less of what the best of the same machine moves is slow."""
WAYS = (
    ("to_device_gbs", "host to device"),
    ("from_device_gbs", "device to host"),
    ("on_device_gbs", "on the device"),
    ("between_devices_gbs", "between devices"),
)
_SUM = re.compile(r"^SUM (\S+) ([\d.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthCheck:
    """Measures copies between host and device, on the device, and between devices.

    NVIDIA's own `nvbandwidth` adds its sums to ours where it is installed.
    """

    name: str = "bandwidth"
    interval: timedelta | None = WEEKLY

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Measure every GPU."""
        if view.diagnostics is None:
            yield not_run(self.name, "this machine has no way to use its GPUs")
            return
        try:
            gpus = view.gpus.list_gpus()
            if used := in_use(view, gpus):
                yield not_run(self.name, used)
                return
            figures = view.diagnostics.copies(gpus)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
            return
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        result = conclude(self.name, _slow(figures))
        words = "; ".join(filter(None, (result.reason, *_words(figures), _tool(view.diagnostics))))
        yield CheckResult(check=self.name, health=result.health, reason=words)


def _slow(figures: Sequence[CopyFigures]) -> Iterator[Opinion]:
    for field, way in WAYS:
        found = [(index, getattr(one, field)) for index, one in enumerate(figures)]
        known = [(index, gbs) for index, gbs in found if gbs is not None]
        best = max((gbs for _, gbs in known), default=0.0)
        for index, gbs in known:
            if gbs < SLOW * best:
                yield degraded(f"GPU {index} moves {gbs:.0f} of {best:.0f} GB/s {way}")


def _words(figures: Sequence[CopyFigures]) -> Iterator[str]:
    for field, way in WAYS:
        known = [gbs for one in figures if (gbs := getattr(one, field)) is not None]
        if known:
            yield f"{min(known):.0f} GB/s {way}"


def _tool(diagnostics: Diagnostics) -> str:
    try:
        run = diagnostics.tool("nvbandwidth", within_s=600.0)
    except (NotRunError, TestFailedError):
        return ""
    sums = [f"{name} {value}" for name, value in _SUM.findall(run.output)]
    return "nvbandwidth: " + ", ".join(sums) if run.code == 0 and sums else ""
