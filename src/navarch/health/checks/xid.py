"""What the driver says has happened."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuEvent, GpuReader

# Until the catalogue comes with the package: the codes that NVIDIA's own answers with a reset, a
# reboot or a replacement ...
FATAL = frozenset(
    {
        *(18, 46, 48, 51, 54, 57, 58, 59, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143),
        *(151, 155, 158, 166, 167, 169, 171, 172, 173, 175, 179, 181, 182),
    }
)

# ... and those that are the doing of the program that ran, and say nothing about the GPU.
APPLICATION = frozenset({13, 31, 43, 45, 69, 108, 137})


@dataclass(frozen=True, slots=True, kw_only=True)
class XidCheck:
    """Reports every XID as a thing that happened, which no quiet round takes back."""

    name: str = "xid"
    interval: timedelta | None = timedelta(seconds=1)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Report what has happened since the last settled round."""
        times = Counter((event.code, event.gpu) for event in view.gpus.events())
        latest = {(event.code, event.gpu): event for event in view.gpus.events()}
        yield CheckResult(check=self.name, health=Health.HEALTHY)
        names = _names(view.gpus) if latest else {}
        for key, event in latest.items():
            yield self._result(event, times[key], names.get(event.gpu, event.gpu))

    def _result(self, event: GpuEvent, times: int, name: str) -> CheckResult:
        again = f" ({times} times)" if times > 1 else ""
        return CheckResult(
            check=f"{self.name}/{event.code}/{event.gpu}",
            health=judge_xid(event.code),
            reason=f"XID {event.code} on {name}{again}" + (event.text and f": {event.text}"),
            fatal=event.code in FATAL,
            lasting=True,
        )


def judge_xid(code: int) -> Health:
    """Return what an XID says about the GPU it happened on."""
    if code in FATAL:
        return Health.UNHEALTHY
    return Health.HEALTHY if code in APPLICATION else Health.DEGRADED


def _names(gpus: GpuReader) -> dict[str, str]:
    """Return what people call each GPU; nothing where the driver does not answer any more."""
    try:
        return {gpu.uuid: f"GPU {gpu.index}" for gpu in gpus.list_gpus()}
    except GpuError:
        return {}
