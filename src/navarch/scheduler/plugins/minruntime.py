"""Minimum run times: protects jobs from eviction after their start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.plugins.node_scores import BuiltInPlugin


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
    _from_reclaim: dict[str, timedelta] = field(init=False, repr=False, default_factory=dict)
    """The minimum run time of each queue against jobs of other queues."""
    _from_preempt: dict[str, timedelta] = field(init=False, repr=False, default_factory=dict)

    def on_session_open(self, session: Session) -> None:
        """Register filters and validators."""
        self._session = session
        for queue in session.queues.by_name.values():
            settings = [ancestor.spec for ancestor in queue.lineage()]
            reclaim = (spec.reclaim_min_runtime for spec in settings)
            preempt = (spec.preempt_min_runtime for spec in settings)
            self._from_reclaim[queue.name] = _first(reclaim, self.default_reclaim)
            self._from_preempt[queue.name] = _first(preempt, self.default_preempt)
        session.add_reclaim_victim_filter_fn(_filter(self._safe_from_reclaim))
        session.add_preempt_victim_filter_fn(_filter(self._safe_from_preempt))
        session.add_reclaim_scenario_validator_fn(_validator(self._safe_from_reclaim))
        session.add_preempt_scenario_validator_fn(_validator(self._safe_from_preempt))

    def _safe_from_reclaim(self, pending: Job, victim: Job) -> bool:
        if victim.last_start is None:
            return False  # no setting protects a job that has not started
        queue = victim.queue
        if self.resolve == "lca" and pending.queue != queue:
            queue = self._session.queues.diverging(pending.queue, queue)[1].name
        return self._session.now < victim.last_start + self._from_reclaim[queue]

    def _safe_from_preempt(self, _pending: Job, victim: Job) -> bool:
        if victim.last_start is None:
            return False
        return self._session.now < victim.last_start + self._from_preempt[victim.queue]


def _first(settings: Iterable[timedelta | None], default: timedelta) -> timedelta:
    return next((each for each in settings if each is not None), default)


def _filter(is_safe: Callable[[Job, Job], bool]) -> Callable[[Job, Job], bool]:
    """Return a filter of victims: a safe job may still lose the tasks above its minimum."""
    return lambda pending, victim: not is_safe(pending, victim) or victim.elastic


def _validator(is_safe: Callable[[Job, Job], bool]) -> Callable[[Scenario], bool]:
    """Return a check that no safe job has a pod set with fewer tasks than its minimum."""

    def validate(scenario: Scenario) -> bool:
        return not any(
            any(pod_set.below_minimum for pod_set in victim.job.pod_sets.values())
            and is_safe(scenario.preemptor, victim.job)
            for victim in scenario.victims.values()
        )

    return validate
