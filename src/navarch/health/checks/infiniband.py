"""Check the state and error counters of InfiniBand and RoCE ports."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.health.checks.issues import HostCheck, Issue, degraded, rise_in_hour
from navarch.ports.checks import MachineView


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandCheck(HostCheck):
    """Watches port states, flaps and symbol errors.

    A port that was never up is taken to have no cable, unless other ports of its kind are up.
    """

    name: str = "infiniband"
    interval: timedelta | None = timedelta(seconds=30)
    flaps_per_hour_max: int = 2
    symbol_errors_per_hour_max: int = 120

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        ports = view.host.network_ports()
        up = {port.ethernet for port in ports if port.state == "ACTIVE"}
        for port in ports:
            if port.state != "ACTIVE" and (port.ethernet in up or port.link_downed):
                physical = f", physically {port.physical}" if port.physical else ""
                yield degraded(f"port {port.name} is {port.state}{physical}")
            flaps = rise_in_hour(view, f"infiniband/{port.name}/downed", port.link_downed)
            if flaps > self.flaps_per_hour_max:
                yield degraded(f"port {port.name} went down {flaps} times within an hour")
            errors = rise_in_hour(view, f"infiniband/{port.name}/symbols", port.symbol_errors)
            if errors > self.symbol_errors_per_hour_max:
                yield degraded(f"port {port.name} had {errors} symbol errors within an hour")
