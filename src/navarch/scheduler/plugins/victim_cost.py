"""Victim cost: evicts the cheapest jobs first and keeps disruption budgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.gang import requested_quota
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK
from navarch.scheduler.plugins.node_scores import BuiltInPlugin


@dataclass
class VictimCost(BuiltInPlugin):
    """Orders the victims of a queue by the cost of their eviction, and keeps disruption budgets.

    The cost is the sum of priority points, GPU hours of unsaved work, and GPUs that a gang would
    have to be given again at the same time.
    """

    name: ClassVar[str] = "victimcost"

    priority_weight: float = field(
        default=1000.0, metadata=argument("priorityWeight", at_least=0.0)
    )
    lost_work_weight: float = field(default=1.0, metadata=argument("lostWorkWeight", at_least=0.0))
    """Per GPU hour since the last checkpoint, or since the start."""
    gang_weight: float = field(default=0.1, metadata=argument("gangWeight", at_least=0.0))
    """Per GPU of a job that runs completely or not at all."""

    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the cost and the budgets."""
        self._session = session
        session.add_victim_cost_fn(self._cost)
        session.add_reclaim_victim_filter_fn(_may_be_disrupted)
        session.add_preempt_victim_filter_fn(_may_be_disrupted)
        session.add_consolidation_victim_filter_fn(_may_be_disrupted)
        session.add_reclaim_scenario_validator_fn(_keeps_budgets)
        session.add_preempt_scenario_validator_fn(_keeps_budgets)
        session.add_consolidation_scenario_validator_fn(_keeps_budgets)

    def _cost(self, job: Job) -> float:
        running = job.tasks_in(ACTIVE_ALLOCATED_MASK)
        size = gpus(requested_quota(running).gpu) if running else 0.0
        saved = max(filter(None, (job.last_start, job.spec.checkpointed_at)), default=None)
        unsaved = 0.0 if saved is None else (self._session.now - saved).total_seconds() / 3600
        lost = size * max(0.0, unsaved)
        together = 0.0 if job.elastic else size
        return (
            self.priority_weight * job.priority
            + self.lost_work_weight * lost
            + self.gang_weight * together
        )


def _may_be_disrupted(_pending: Job, victim: Job) -> bool:
    return victim.spec.disruptions_allowed != 0


def _keeps_budgets(scenario: Scenario) -> bool:
    """Return whether no job loses or moves more tasks than its budget allows."""
    for victim in scenario.victims.values():
        allowed = victim.job.spec.disruptions_allowed
        disrupted = [task for task in victim.tasks if task.placement.virtual]
        if allowed is not None and len(disrupted) > allowed:
            return False
    return True
