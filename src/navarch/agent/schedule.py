"""Which checks are due."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import HealthCheck


class Schedule:
    """Says when each check runs next. Times are the clock's monotonic seconds."""

    def __init__(self, checks: Sequence[HealthCheck], *, usual: timedelta) -> None:
        self._checks = checks
        self._usual_s = usual.total_seconds()
        self._last: dict[str, float] = {}
        self._passed: set[str] = set()

    @property
    def checks(self) -> Sequence[HealthCheck]:
        """Every check."""
        return self._checks

    def set_usual(self, usual: timedelta) -> None:
        """Change how often checks without an interval of their own run."""
        self._usual_s = usual.total_seconds()

    def due(self, now: float) -> list[HealthCheck]:
        """Return the checks to run now."""
        # A timer may fire a hair early; waiting again for the rest would be no use to anybody.
        return [check for check in self._checks if self._due_at(check) <= now + 1e-3]

    def next_due(self) -> float | None:
        """Return when a check is next due; None for never."""
        times = [self._due_at(check) for check in self._checks]
        return min((time for time in times if time < float("inf")), default=None)

    def ran(self, check: HealthCheck, results: Sequence[CheckResult], now: float) -> None:
        """Note that a check ran."""
        self._last[check.name] = now
        if all(result.health is Health.HEALTHY for result in results):
            self._passed.add(check.name)

    def hasten(self, name: str) -> None:
        """Run the check of that name as soon as possible."""
        self._last.pop(name, None)

    def start_over(self) -> None:
        """Run every check again soon, those included that run after a start only."""
        self._last.clear()
        self._passed.clear()

    def _due_at(self, check: HealthCheck) -> float:
        if check.name not in self._last:
            return float("-inf")
        if check.interval is None:
            return self._last[check.name] + self._usual_s
        if check.interval:
            return self._last[check.name] + check.interval.total_seconds()
        if check.name in self._passed:
            return float("inf")
        return self._last[check.name] + self._usual_s
