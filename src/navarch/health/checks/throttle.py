"""Check whether GPUs are slowed down."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

SLOWDOWN, THERMAL, BRAKE, SOFTWARE_THERMAL = 0x08, 0x40, 0x80, 0x20
"""Bits of NVML's clock event reasons. The power cap (4) and idle (1) are normal operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCheck:
    """Adds up how long heat or power slowed a GPU, from the GPU's counters.

    The current bits may be set for a millisecond only, while the counters cover the whole time
    between two checks. GPUs without counters are judged by the bits, under load only.
    """

    name: str = "throttle"
    interval: timedelta | None = None
    lately: timedelta = timedelta(minutes=10)
    share_max: float = 0.1
    """The largest share of `lately` that a GPU may be slowed."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(
            self.name, view, lambda gpu, facts: self._find_issues(view, gpu, facts)
        )

    def _find_issues(self, view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        counters = {
            "heat": facts.thermal_slowdown_ns,
            "heat, by the driver,": facts.software_slowdown_ns,
            "the power supply": facts.power_brake_ns,
        }
        if all(counter is None for counter in counters.values()):
            yield from _by_bits(gpu, facts)
            return
        for cause, total_ns in counters.items():
            if total_ns is None:
                continue
            key = f"throttle/{gpu.uuid}/{cause}"
            # In tenths of a second, so that the history does not fill with noise.
            slowed = view.history.rise(
                key, total_ns // 100_000_000, at=view.now, within=self.lately
            )
            if slowed / 10 > self.share_max * self.lately.total_seconds():
                minutes = self.lately.total_seconds() / 60
                yield degraded(
                    f"GPU {gpu.index} was slowed by {cause} for {slowed / 10:.0f} s"
                    f" of the last {minutes:.0f} minutes"
                )


def _by_bits(gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
    reasons, busy = facts.clock_reasons or 0, (facts.utilization_pct or 0.0) > 0.0
    if not busy:
        return
    if reasons & (SLOWDOWN | THERMAL | SOFTWARE_THERMAL):
        yield degraded(f"GPU {gpu.index} is slowed by heat")
    elif reasons & BRAKE:
        yield degraded(f"GPU {gpu.index} is slowed by the power supply")
