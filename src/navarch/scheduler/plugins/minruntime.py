"""Minimum run times: protects jobs from eviction after their start."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.plugins.base import BuiltInPlugin


@dataclass
class MinRuntime(BuiltInPlugin):
    """Protects jobs from eviction until they have run for a minimum time.

    A protected job may still lose the tasks above its minimum.
    """

    name: ClassVar[str] = "minruntime"

    default_reclaim: timedelta = field(
        default=timedelta(0), metadata=argument("defaultReclaimMinRuntime")
    )
    default_preempt: timedelta = field(
        default=timedelta(0), metadata=argument("defaultPreemptMinRuntime")
    )
    resolve: Literal["lca", "queue"] = field(
        default="lca", metadata=argument("reclaimResolveMethod")
    )
    """The queue with the setting for reclaim: the victim's own, or its ancestor at the level where
    the two queues diverge."""

    _session: Session = field(init=False, repr=False)
    _from_reclaim: dict[str, timedelta] = field(init=False, repr=False)
    """The minimum run time of each queue against jobs of other queues."""
    _from_preempt: dict[str, timedelta] = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register filters and validators."""
        self._session = session
        queues = session.queues.by_name.values()
        self._from_reclaim = {q.name: _reclaim_setting(q, self.default_reclaim) for q in queues}
        self._from_preempt = {q.name: _preempt_setting(q, self.default_preempt) for q in queues}
        session.add_reclaim_victim_filter_fn(
            lambda pending, victim: not self._safe_from_reclaim(pending, victim) or victim.elastic
        )
        session.add_preempt_victim_filter_fn(
            lambda _pending, victim: not self._safe_from_preempt(victim) or victim.elastic
        )
        session.add_reclaim_scenario_validator_fn(self._validate_reclaim)
        session.add_preempt_scenario_validator_fn(self._validate_preempt)

    def _validate_reclaim(self, scenario: Scenario) -> bool:
        return not any(
            falls_below_minimum(victim.job)
            and self._safe_from_reclaim(scenario.preemptor, victim.job)
            for victim in scenario.victims.values()
        )

    def _validate_preempt(self, scenario: Scenario) -> bool:
        return not any(
            falls_below_minimum(victim.job) and self._safe_from_preempt(victim.job)
            for victim in scenario.victims.values()
        )

    def _safe_from_reclaim(self, pending: Job, victim: Job) -> bool:
        if victim.last_start is None:
            return False  # no setting protects a job that has not started
        queue = victim.queue
        if self.resolve == "lca" and pending.queue != queue:
            queue = self._session.queues.diverging(pending.queue, queue)[1].name
        return self._safe(victim, self._from_reclaim[queue])

    def _safe_from_preempt(self, victim: Job) -> bool:
        return self._safe(victim, self._from_preempt[victim.queue])

    def _safe(self, victim: Job, min_runtime: timedelta) -> bool:
        started = victim.last_start
        return started is not None and self._session.now < started + min_runtime


def falls_below_minimum(job: Job) -> bool:
    """Return whether a pod set has fewer tasks than its minimum."""
    return any(pod_set.below_minimum for pod_set in job.pod_sets.values())


def _reclaim_setting(queue: Queue, default: timedelta) -> timedelta:
    settings = (ancestor.spec.reclaim_min_runtime for ancestor in queue.lineage())
    return next((each for each in settings if each is not None), default)


def _preempt_setting(queue: Queue, default: timedelta) -> timedelta:
    settings = (ancestor.spec.preempt_min_runtime for ancestor in queue.lineage())
    return next((each for each in settings if each is not None), default)
