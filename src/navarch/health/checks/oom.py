"""Check whether the kernel's OOM killer is active."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.health.checks.issues import HostCheck, Issue, degraded, rise_in_hour
from navarch.ports.checks import MachineView


@dataclass(frozen=True, slots=True, kw_only=True)
class OomCheck(HostCheck):
    """Watches the kernel's count. Single kills are the program's fault; many point to the host."""

    name: str = "oom"
    kills_per_hour_max: int = 3

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        kills = view.host.oom_kills()
        new = 0 if kills is None else rise_in_hour(view, "oom", kills)
        if new > self.kills_per_hour_max:
            yield degraded(
                f"the kernel killed {new} processes within an hour because memory ran out"
            )
