"""Checks of power, throttling and settings of each GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.instance import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

SLOWDOWN, THERMAL, BRAKE, SOFTWARE_THERMAL = 0x08, 0x40, 0x80, 0x20
"""Bits of NVML's clock event reasons. The power cap (4) and idle (1) are normal operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCheck(GpuCheck):
    """Finds GPUs far above their power limit, or limited far below their default."""

    name: str = "power"
    over: float = 1.25
    """GPUs exceed their limit briefly, but not by a quarter."""
    capped: float = 0.6

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        used, limit, usual = health.power_w, health.power_limit_w, health.power_default_w
        if used and limit and used > self.over * limit:
            yield degraded(f"GPU {gpu.index} draws {used:.0f} W, above its limit of {limit:.0f} W")
        if limit and usual and limit < self.capped * usual:
            yield degraded(
                f"GPU {gpu.index} is limited to {limit:.0f} W of its default {usual:.0f} W"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCheck(GpuCheck):
    """Adds up how long heat or power slowed a GPU, from the GPU's counters.

    The current bits may be set for a millisecond only, while the counters cover the whole time
    between two checks. GPUs without counters are judged by the bits, under load only.
    """

    name: str = "throttle"
    lately: timedelta = timedelta(minutes=10)
    share_max: float = 0.1
    """The largest share of `lately` that a GPU may be slowed."""

    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        counters = {
            "heat": health.thermal_slowdown_ns,
            "heat, by the driver,": health.software_slowdown_ns,
            "the power supply": health.power_brake_ns,
        }
        if all(counter is None for counter in counters.values()):
            busy, reasons = (health.utilization_pct or 0.0) > 0.0, health.clock_reasons or 0
            if busy and reasons & (SLOWDOWN | THERMAL | SOFTWARE_THERMAL):
                yield degraded(f"GPU {gpu.index} is slowed by heat")
            elif busy and reasons & BRAKE:
                yield degraded(f"GPU {gpu.index} is slowed by the power supply")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCheck(GpuCheck):
    """Expects ECC and persistence mode to be on.

    Without ECC, memory errors go unnoticed. Without persistence mode, every start of a program
    takes seconds and resets the GPU's error counters.
    """

    name: str = "settings"

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        if health.ecc_on is False:
            yield degraded(f"{name} has error correction off")
        if health.ecc_on is not None and health.ecc_on_next not in (None, health.ecc_on):
            word = "on" if health.ecc_on_next else "off"
            yield degraded(f"{name} will have error correction {word} after a restart")
        if health.persistent is False:
            yield degraded(f"{name} has persistence mode off")
