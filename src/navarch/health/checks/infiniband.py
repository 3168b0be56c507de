"""Check the state and error counters of InfiniBand and RoCE ports."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import Issue, combine, degraded
from navarch.ports.checks import MachineView
from navarch.ports.host import NetworkPort

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandCheck:
    """Watches port states, flaps and symbol errors.

    A port that was never up is taken to have no cable, unless other ports of its kind are up.
    """

    name: str = "infiniband"
    interval: timedelta | None = timedelta(seconds=30)
    flaps_per_hour_max: int = 2
    symbol_errors_per_hour_max: int = 120

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every port."""
        ports = view.host.network_ports()
        up = {port.ethernet for port in ports if port.state == "ACTIVE"}
        yield combine(
            self.name, [issue for port in ports for issue in self._find_issues(view, port, up)]
        )

    def _find_issues(self, view: MachineView, port: NetworkPort, up: set[bool]) -> Iterator[Issue]:
        if port.state != "ACTIVE" and (port.ethernet in up or port.link_downed):
            physical = f", physically {port.physical}" if port.physical else ""
            yield degraded(f"port {port.name} is {port.state}{physical}")
        flaps = self._rise(view, f"{port.name}/downed", port.link_downed)
        if flaps > self.flaps_per_hour_max:
            yield degraded(f"port {port.name} went down {flaps} times within an hour")
        errors = self._rise(view, f"{port.name}/symbols", port.symbol_errors)
        if errors > self.symbol_errors_per_hour_max:
            yield degraded(f"port {port.name} had {errors} symbol errors within an hour")

    def _rise(self, view: MachineView, what: str, value: int) -> int:
        return view.history.rise(f"infiniband/{what}", value, at=view.now, within=LATELY)
