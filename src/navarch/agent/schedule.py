"""When checks run, and when their results are reported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import HealthCheck

PROCESSES_MAX = 10
"""Per interval, this many processes with the same error on the same GPU are reported at once."""


@dataclass(slots=True)
class CheckSchedule:
    """The next run of each check. Times are monotonic seconds."""

    checks: Sequence[HealthCheck]
    default_s: float
    """The interval of checks that define none."""
    _last: dict[str, float] = field(default_factory=dict)
    _passed: set[str] = field(default_factory=set)

    def due(self, now: float) -> list[HealthCheck]:
        """Return the checks to run now."""
        # A timer may fire slightly early; the tolerance avoids a second, tiny wait.
        return [check for check in self.checks if self._due_at(check) <= now + 1e-3]

    def next_due(self) -> float | None:
        """Return when the next check is due; None if there is none."""
        times = [self._due_at(check) for check in self.checks]
        return min((time for time in times if time < float("inf")), default=None)

    def ran(self, check: HealthCheck, results: Sequence[CheckResult], now: float) -> None:
        """Record a run of a check."""
        self._last[check.name] = now
        if all(result.health is Health.HEALTHY for result in results):
            self._passed.add(check.name)

    def schedule_now(self, name: str) -> None:
        """Make the named check due immediately."""
        self._last.pop(name, None)

    def start_over(self) -> None:
        """Make every check due, including those that only run after a start."""
        self._last.clear()
        self._passed.clear()

    def _due_at(self, check: HealthCheck) -> float:
        if check.name not in self._last:
            return float("-inf")
        if check.interval:
            return self._last[check.name] + check.interval.total_seconds()
        # An interval of zero means once after a start, until the check passes.
        if check.interval is not None and check.name in self._passed:
            return float("inf")
        return self._last[check.name] + self.default_s


@dataclass(slots=True)
class ReportThrottle:
    """Batches results until the report interval has passed or one of them is urgent.

    Checks may run every second; a report is due once per interval, and at once on a change.
    """

    interval_s: float
    urgent: bool = False
    """Makes the next report due immediately."""
    _pending: dict[str, CheckResult] = field(default_factory=dict)
    _reported: dict[str, tuple[Health, bool]] = field(default_factory=dict)
    _event_reported_at: dict[str, float] = field(default_factory=dict)
    _observations: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """The last reported time, sources and reason of each event."""
    _reported_at: float | None = None

    def add(self, results: Iterable[CheckResult], now: float) -> None:
        """Add results to the next report."""
        for result in results:
            is_dated = result.lasting and "at" in result.facts
            if is_dated and self._observations.get(result.check) == _observation(result):
                continue  # Already reported; its event is not settled yet.
            self._pending[result.check] = result
            changed = self._reported.get(_subject(result)) != (result.health, result.fatal)
            if changed or (result.lasting and self._is_urgent(result, now)):
                self.urgent = True

    def _is_urgent(self, result: CheckResult, now: float) -> bool:
        """Return whether an event is reported at once.

        Repeated events are reported once per interval, unless another source confirms the last one;
        of several processes with the same error, the first few are reported at once.
        """
        last = self._observations.get(result.check)
        if last is not None and last[0] == result.facts.get("at", ""):
            return True
        reported_at = self._event_reported_at.get(result.check)
        if reported_at is not None:
            return now - reported_at >= self.interval_s
        subject = _subject(result)
        recent = [
            check
            for check, at in self._event_reported_at.items()
            if check.startswith(subject) and now - at < self.interval_s
        ]
        return len(recent) < PROCESSES_MAX

    def due(self, now: float) -> tuple[CheckResult, ...]:
        """Return the results to report now; empty if no report is due."""
        waited = self._reported_at is None or now - self._reported_at >= self.interval_s - 1e-3
        if not self._pending or not (self.urgent or waited):
            return ()
        return tuple(self._pending.values())

    def mark_reported(self, results: Iterable[CheckResult], now: float) -> None:
        """Record that `results` are stored for upload."""
        for result in results:
            self._reported[_subject(result)] = (result.health, result.fatal)
            if result.lasting:
                self._event_reported_at[result.check] = now
                self._observations[result.check] = _observation(result)
        for check, at in list(self._event_reported_at.items()):
            if now - at >= self.interval_s:
                del self._event_reported_at[check], self._observations[check]
        self._pending.clear()
        self.urgent = False
        self._reported_at = now

    def start_over(self) -> None:
        """Forget what was reported, so that everything is reported again."""
        self._reported.clear()
        self._event_reported_at.clear()
        self._observations.clear()
        self._reported_at = None


def _subject(result: CheckResult) -> str:
    """Return the check's name without the process, if it is an event.

    A program that crashes in a loop is rate-limited like any repeated event.
    """
    return "/".join(result.check.split("/")[:3]) if result.lasting else result.check


def _observation(result: CheckResult) -> tuple[str, str, str]:
    facts = result.facts
    return facts.get("at", ""), facts.get("sources", ""), result.reason
