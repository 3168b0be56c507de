"""Stragglers: compares the GPUs of one job, and reports the slow ones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.control.health.wear import NoteFindings, gpu_label
from navarch.control.runtime.controller import Controller
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.health.checks.work import gpus_at_work
from navarch.health.learning.stragglers import (
    CONFIRMATIONS,
    PEERS_MIN,
    STRAGGLER,
    SlowStreak,
    Straggler,
    update_streaks,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Store

MEASURES = {"clock": "MHz", "power": "W"}
"""What is compared. A throttled GPU clocks lower than its peers; one that is limited by its
memory, its bus or its neighbours draws less power."""

ALL_JOBS = "all jobs"

Comparison = tuple[str, str]
"""A job, and what is compared among its GPUs."""


@dataclass(frozen=True, slots=True)
class _Reading:
    node: NodeId
    job: str
    at: datetime
    values: dict[str, float]


class StragglerController(Controller):
    """Compares once per window, which is long enough for every agent to report.

    Suspicions are in memory only: after a restart, finding a straggler takes a few windows longer.
    A straggler is a condition of its node until the GPU has kept up for as long as it took to find
    it.
    """

    name = "stragglers"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        note_findings: NoteFindings,
        *,
        interval: Callable[[], timedelta],
    ) -> None:
        """`interval` is the time between two reports of an agent."""
        super().__init__(clock, store)
        self._note_findings = note_findings
        self._interval = interval
        self._latest: dict[str, _Reading] = {}
        self._suspected: dict[Comparison, dict[str, SlowStreak]] = {}
        self._kept_up: dict[str, int] = {}
        self._begun_at = clock.now()

    def on_report(self, node: NodeId, report: HealthReport) -> None:
        """Take the readings of GPUs at work."""
        readings = [
            work for result in report.results if result.facts for work in gpus_at_work(result.facts)
        ]
        if not readings:
            return
        now = self._clock.now()
        at = min(report.at or now, now)
        if at < now - self._window:
            return  # It was buffered by the agent; there is nothing to compare it with.
        was_idle = not self._latest
        for work in readings:
            values = {"clock": work.clock_mhz, "power": work.power_w}
            self._latest[work.gpu] = _Reading(node, work.job, at, values)
        if was_idle and self._latest:
            # Windows continue as if they had never stopped, so that no comparison is late.
            self._begun_at += (now - self._begun_at) // self._window * self._window
            self.queue.add_at(ALL_JOBS, self._begun_at + self._window)

    @property
    def _window(self) -> timedelta:
        return 2 * self._interval()

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Compare, at the end of a window; stop when no GPU is at work."""
        now = self._clock.now()
        if not self._latest:
            self._suspected = {}
            return
        if now < self._begun_at + self._window:
            self.queue.add_at(ALL_JOBS, self._begun_at + self._window)
            return
        begun_at, self._begun_at = self._begun_at, now
        self.queue.add_at(ALL_JOBS, now + self._window)
        self._latest = {gpu: read for gpu, read in self._latest.items() if read.at > begun_at}
        slow = self._compare()
        for gpu, found in slow.items():
            await self._report(gpu, *found)
        crowd = Counter(reading.job for reading in self._latest.values())
        for gpu in sorted(self._latest.keys() - slow.keys()):
            if crowd[self._latest[gpu].job] >= PEERS_MIN:
                await self._maybe_clear(gpu)

    def _compare(self) -> dict[str, tuple[str, Straggler, int]]:
        """Return each straggler with the measure that shows it, and the number of its peers."""
        slow: dict[str, tuple[str, Straggler, int]] = {}
        after: dict[Comparison, dict[str, SlowStreak]] = {}
        for key, values in sorted(self._groups()):
            after[key], found = update_streaks(self._suspected.get(key, {}), values)
            for each in found:
                known = slow.get(each.name)
                if known is None or known[1].shortfall < each.shortfall:
                    slow[each.name] = (key[1], each, len(values) - 1)
        self._suspected = after
        return slow

    def _groups(self) -> Iterator[tuple[Comparison, dict[str, float]]]:
        jobs: dict[str, list[str]] = defaultdict(list)
        for gpu, reading in self._latest.items():
            jobs[reading.job].append(gpu)
        for job, gpus in jobs.items():
            for measure in MEASURES:
                yield (
                    (job, measure),
                    {gpu: self._latest[gpu].values[measure] for gpu in sorted(gpus)},
                )

    async def _report(self, gpu: str, measure: str, found: Straggler, peers: int) -> None:
        reading = self._latest[gpu]
        self._kept_up.pop(gpu, None)
        if self._is_reported(gpu, reading.node):
            return
        label = await gpu_label(self._store, reading.node, gpu)
        unit = MEASURES[measure]
        result = CheckResult(
            check=f"{STRAGGLER}/{gpu}",
            health=Health.DEGRADED,
            reason=f"{label} is at {found.value:.0f} {unit}, {found.shortfall:.0%} less than "
            f"the {peers} others of job {reading.job} ({found.typical:.0f} {unit})",
            facts={
                "gpu": gpu,
                "event_type": STRAGGLER,
                "job": reading.job,
                "measure": measure,
                "shortfall_pct": f"{100 * found.shortfall:.1f}",
                "peers": str(peers),
            },
        )
        await self._note_findings(reading.node, [result])

    async def _maybe_clear(self, gpu: str) -> None:
        reading = self._latest[gpu]
        if not self._is_reported(gpu, reading.node):
            return
        if any(gpu in group for group in self._suspected.values()):
            self._kept_up.pop(gpu, None)
            return
        self._kept_up[gpu] = self._kept_up.get(gpu, 0) + 1
        if self._kept_up[gpu] >= CONFIRMATIONS:
            del self._kept_up[gpu]
            result = CheckResult(check=f"{STRAGGLER}/{gpu}", health=Health.HEALTHY)
            await self._note_findings(reading.node, [result])

    def _is_reported(self, gpu: str, name: NodeId) -> bool:
        node = self._store.fleet().nodes.get(name)
        check = f"{STRAGGLER}/{gpu}"
        return node is not None and any(c.check == check for c in node.conditions)
