"""Which checks are due."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import HealthCheck


class CheckSchedule:
    """Says when each check runs next. Times are the clock's monotonic seconds."""

    def __init__(self, checks: Sequence[HealthCheck], *, default: timedelta) -> None:
        self._checks = checks
        self._default_s = default.total_seconds()
        self._last: dict[str, float] = {}
        self._passed: set[str] = set()

    @property
    def checks(self) -> Sequence[HealthCheck]:
        """Every check."""
        return self._checks

    def set_default(self, default: timedelta) -> None:
        """Change how often checks without an interval of their own run."""
        self._default_s = default.total_seconds()

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

    def schedule_now(self, name: str) -> None:
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
            return self._last[check.name] + self._default_s
        if check.interval:
            return self._last[check.name] + check.interval.total_seconds()
        if check.name in self._passed:
            return float("inf")
        return self._last[check.name] + self._default_s


PROCESSES_MAX = 10
"""So many processes that meet the same error on the same GPU are told of at once, an interval."""


class ReportThrottle:
    """Gathers results until they are due, or cannot wait.

    Checks may look every second; the control plane wants to hear once an interval, and at
    once when something has changed.
    """

    def __init__(self, *, interval: timedelta) -> None:
        self._interval_s = interval.total_seconds()
        self._pending: dict[str, CheckResult] = {}
        self._reported: dict[str, tuple[Health, bool]] = {}
        self._event_reported_at: dict[str, float] = {}
        self._observations: dict[str, tuple[str, str, str]] = {}
        """When what happened last, and who saw it: a second witness is worth a report."""
        self._reported_at: float | None = None
        self._urgent = False

    def set_interval(self, interval: timedelta) -> None:
        """Change how often the control plane wants to hear."""
        self._interval_s = interval.total_seconds()

    def add(self, results: Iterable[CheckResult], now: float) -> None:
        """Take note of what was found."""
        for result in results:
            is_dated = result.lasting and "at" in result.facts
            if is_dated and self._observations.get(result.check) == _observation(result):
                continue  # Told of, and not settled yet.
            self._pending[result.check] = result
            changed = self._reported.get(_subject(result)) != (result.health, result.fatal)
            if changed or (result.lasting and self._is_urgent(result, now)):
                self._urgent = True

    def _is_urgent(self, result: CheckResult, now: float) -> bool:
        mark_reported = self._observations.get(result.check)
        is_confirmed = mark_reported is not None and mark_reported[0] == result.facts.get("at", "")
        return is_confirmed or self._is_below_rate_limit(result, now)

    def _is_below_rate_limit(self, result: CheckResult, now: float) -> bool:
        """Return whether this is not one of many: a storm is told of once an interval.

        Of several processes that meet the same error, the first few are told of at once.
        """
        told_at = self._event_reported_at.get(result.check)
        if told_at is not None:
            return now - told_at >= self._interval_s
        subject = _subject(result)
        lately = [
            check
            for check, at in self._event_reported_at.items()
            if check.startswith(subject) and now - at < self._interval_s
        ]
        return len(lately) < PROCESSES_MAX

    def flush_now(self) -> None:
        """Let what is gathered wait no longer."""
        self._urgent = True

    def due(self, now: float) -> tuple[CheckResult, ...]:
        """Return what to report now, which may be nothing."""
        waited = self._reported_at is None or now - self._reported_at >= self._interval_s - 1e-3
        if not self._pending or not (self._urgent or waited):
            return ()
        return tuple(self._pending.values())

    def mark_reported(self, results: Iterable[CheckResult], now: float) -> None:
        """Note that `results` are written down to be reported."""
        for result in results:
            self._reported[_subject(result)] = (result.health, result.fatal)
            if result.lasting:
                self._event_reported_at[result.check] = now
                self._observations[result.check] = _observation(result)
        self._event_reported_at = {
            check: at
            for check, at in self._event_reported_at.items()
            if now - at < self._interval_s
        }
        self._observations = {
            check: seen
            for check, seen in self._observations.items()
            if check in self._event_reported_at
        }
        self._pending.clear()
        self._urgent = False
        self._reported_at = now

    def start_over(self) -> None:
        """Say everything again."""
        self._reported.clear()
        self._event_reported_at.clear()
        self._observations.clear()
        self._reported_at = None


def _subject(result: CheckResult) -> str:
    """Return what a result is about, without the process.

    A program that crashes in a loop is a storm like any other, whatever it gets through.
    """
    return "/".join(result.check.split("/")[:3]) if result.lasting else result.check


def _observation(result: CheckResult) -> tuple[str, str, str]:
    facts = result.facts
    return facts.get("at", ""), facts.get("sources", ""), result.reason
