"""The plugin: accounts of all queues, and the extension points that depend on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.gang import request_to_place, requested_quota, tasks_to_place
from navarch.scheduler.framework.hooks import Event, EventHandler
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, PodSet, Task
from navarch.scheduler.model.jobs import JobTable
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import NOTHING, SCHEDULABLE, Amounts, CapacityVerdict
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, TaskStatus
from navarch.scheduler.plugins.node_scores import BuiltInPlugin
from navarch.scheduler.plugins.proportion.fair_share import set_fair_shares
from navarch.scheduler.plugins.proportion.queue_order import Keys, Losses, compare, rank
from navarch.scheduler.plugins.proportion.reclaim import ReclaimCheck
from navarch.scheduler.plugins.proportion.shares import (
    Charges,
    Shares,
    beyond_limits,
    beyond_quotas,
)


@dataclass
class Proportion(BuiltInPlugin):
    """Divides the cluster among queues and enforces the division."""

    name: ClassVar[str] = "proportion"

    k_value: float = field(default=1.0, metadata=argument("kValue", at_least=0.0))
    """How strongly past usage reduces a queue's share of the surplus."""
    # The misspelling is part of the argument's public name.
    saturation_multiplier: float = field(
        default=1.0, metadata=argument("relcaimerSaturationMultiplier", at_least=1.0)
    )
    """How much more saturated than the reclaimer a queue must be to lose resources."""

    _session: Session = field(init=False, repr=False)
    _shares: Shares = field(init=False, repr=False)
    _charges: Charges = field(init=False, repr=False, default_factory=Charges)
    _losses: Losses = field(init=False, repr=False)
    _frozen: dict[str, Amounts] = field(init=False, repr=False, default_factory=dict)
    _frozen_fixed: dict[str, Amounts] = field(init=False, repr=False, default_factory=dict)

    def on_session_open(self, session: Session) -> None:
        """Create the accounts, divide the cluster, and register the functions."""
        self._session = session
        self._shares = Shares(session)
        self._losses = Losses(self._charges)
        self._enter(session.jobs)
        set_fair_shares(self._shares, session.queues.roots, self.k_value)
        self._freeze()
        session.add_queue_order_fn(
            self._compare_queues,
            rank=self._rank_queue,
            loss_rank=self._rank_loss,
            return_rank=self._rank_return,
            weight=lambda job: request_to_place(session, job),
        )
        session.add_is_job_over_capacity_fn(self._job_over_capacity, only_for=self._is_bounded)
        session.add_is_non_preemptible_job_over_queue_quota_fn(self._job_over_quota)
        session.add_is_task_allocation_on_node_over_capacity_fn(
            self._task_over_capacity, scope="queue"
        )
        session.add_can_reclaim_resources_fn(self._can_reclaim)
        session.add_reclaim_scenario_validator_fn(self._validate)
        session.add_on_job_solution_start_fn(self._freeze)
        session.add_get_queue_allocated_resources_fn(lambda q: self._shares[q.name].allocated)
        session.add_get_queue_deserved_resources_fn(lambda q: q.deserved)
        session.add_get_queue_fair_share_fn(lambda q: self._shares[q.name].fair_share)
        session.add_event_handler(
            EventHandler(
                allocate_fn=self._on_allocate,
                deallocate_fn=self._on_deallocate,
                allocate_all_fn=self._on_allocate_all,
                deallocate_all_fn=self._on_deallocate_all,
            )
        )

    @property
    def shares(self) -> Shares:
        """The accounts of all queues."""
        return self._shares

    def _enter(self, jobs: JobTable) -> None:
        """Add what jobs use and request to the accounts of their queues and all ancestors."""
        used: defaultdict[tuple[str, bool], list[Amounts]] = defaultdict(list)
        wanted: defaultdict[tuple[str, bool], list[Amounts]] = defaultdict(list)
        for spec in jobs.steady:
            used[spec.queue, spec.preemptible].append(spec.tasks[0].request.fixed_quota or NOTHING)
        for job in jobs.others:
            key = (job.queue, job.preemptible)
            for pod_set in job.pod_sets.values():
                if pod_set.untouched(TaskStatus.PENDING):
                    wanted[key].append(self._wanted(job, pod_set))
                elif job.is_materialised:
                    used[key].append(self._placed(pod_set))
                    waiting = [task for task in pod_set.tasks if task.status is TaskStatus.PENDING]
                    wanted[key].append(requested_quota(waiting))
                elif pod_set.untouched(ACTIVE_ALLOCATED_MASK):
                    # Equal tasks that are not materialised.
                    quota = job.spec.tasks[0].request.fixed_quota or NOTHING
                    used[key].append(quota.times(pod_set.size))
        for queue, preemptible in used | wanted:
            has, wants = _sum(used[queue, preemptible]), _sum(wanted[queue, preemptible])
            for share in self._shares.lineage(queue):
                share.charge(has, preemptible=preemptible)
                share.request = share.request.plus(has).plus(wants)

    @staticmethod
    def _wanted(job: Job, pod_set: PodSet) -> Amounts:
        """Return the quota that the tasks of a pod set, all pending, would use."""
        if pod_set.shapes:
            wanted = job.quota_of(pod_set.shapes)
        elif pod_set.alike:
            wanted = job.quota_each.times(pod_set.size)
        else:
            return requested_quota(pod_set.tasks)
        if len(job.pod_sets) == 1 and pod_set.min_available >= pod_set.size:
            job.requested_quota = (0, wanted)  # all of them are placed together
        return wanted

    def _placed(self, pod_set: PodSet) -> Amounts:
        """Return the quota that the tasks of a pod set use, and record each task's part."""
        has = NOTHING
        for task in pod_set.tasks:
            placement = task.placement
            if placement.counts and placement.node is not None:
                has = has.plus(self._charges.enter(task, self._session.nodes[placement.node]))
        return has

    def _on_allocate(self, event: Event) -> None:
        self._book(event.task.job, self._charges.enter(event.task, self._session.nodes[event.node]))

    def _on_deallocate(self, event: Event) -> None:
        quota = self._session.nodes[event.node].quota_of(event.task.request)
        self._book(event.task.job, quota.times(-1))

    def _on_allocate_all(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        # These use whole GPUs or none, so their quota does not depend on the node.
        self._book(tasks[0].job, nodes[0].quota_of(tasks[0].request).times(len(tasks)))

    def _on_deallocate_all(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        self._book(tasks[0].job, nodes[0].quota_of(tasks[0].request).times(-len(tasks)))

    def _book(self, job: Job, amount: Amounts) -> None:
        """Add to what the job's queue and its ancestors use."""
        self._losses.forget()
        for share in self._shares.lineage(job.queue):
            share.charge(amount, preemptible=job.preemptible)

    def _compare_queues(
        self,
        left: Queue,
        right: Queue,
        left_job: Job | None,
        right_job: Job | None,
        left_victims: Sequence[Job],
        right_victims: Sequence[Job],
        _min_gpu_memory_mib: int,
    ) -> int:
        shares = self._shares.by_name
        return compare(
            shares[left.name],
            shares[right.name],
            (self._request(left_job), self._request(right_job)),
            (self._losses.of(left_victims), self._losses.of(right_victims)),
            self._shares.total,
        )

    def _rank_queue(self, queue: Queue, job: Job) -> Keys:
        request = request_to_place(self._session, job)
        shares = self._shares
        return rank(shares.by_name[queue.name], request, NOTHING, shares.total)

    def _rank_loss(self, queue: Queue, taken: Sequence[Job]) -> Keys:
        shares = self._shares
        return rank(shares.by_name[queue.name], NOTHING, self._losses.of(taken), shares.total)

    def _rank_return(self, queue: Queue, job: Job) -> Keys:
        (task,) = job.tasks.values()
        shares, lost = self._shares, self._charges.of(task)
        share, request = shares.by_name[queue.name], task.pending_quota
        return rank(share, request, NOTHING, shares.total, has=share.allocated.minus(lost))

    def _request(self, job: Job | None) -> Amounts:
        return NOTHING if job is None else request_to_place(self._session, job)

    def _is_bounded(self, job: Job) -> bool:
        """Return whether a limit or quota applies to the job."""
        limited, promised = self._shares.limited(job.queue), self._shares.promised(job.queue)
        return bool(limited or (promised and not job.preemptible))

    def _job_over_capacity(self, job: Job, tasks: Sequence[Task]) -> CapacityVerdict:
        # The sum was computed before, when the next queue was chosen.
        if tasks is tasks_to_place(self._session, job, real=False):
            request = request_to_place(self._session, job)
        else:
            request = requested_quota(tasks)
        exceeded = list(self._exceeded(job, request))
        if not exceeded:
            return SCHEDULABLE
        return replace(exceeded[0], also=tuple(exceeded[1:]))

    def _job_over_quota(self, job: Job, tasks: Sequence[Task]) -> CapacityVerdict:
        quotas = () if job.preemptible else self._shares.promised(job.queue)
        return next(beyond_quotas(quotas, requested_quota(tasks)), SCHEDULABLE)

    def _task_over_capacity(self, task: Task, job: Job, node: Node) -> CapacityVerdict:
        return next(self._exceeded(job, node.quota_of(task.request)), SCHEDULABLE)

    def _exceeded(self, job: Job, request: Amounts) -> Iterator[CapacityVerdict]:
        """Yield every limit and quota that the request of the job exceeds."""
        yield from beyond_limits(self._shares.limited(job.queue), request)
        if not job.preemptible:
            yield from beyond_quotas(self._shares.promised(job.queue), request)

    def _can_reclaim(self, job: Job) -> bool:
        share = self._shares[job.queue]
        request = request_to_place(self._session, job)
        if not share.allocated.plus(request).within(share.fair_share):
            return False
        if job.preemptible:
            return True
        return share.allocated_non_preemptible.plus(request).within(share.deserved)

    def _freeze(self) -> None:
        """Store what queues use now: a search judges all its scenarios by the same figures."""
        shares = self._shares.by_name
        self._frozen = {name: share.allocated for name, share in shares.items()}
        self._frozen_fixed = {n: share.allocated_non_preemptible for n, share in shares.items()}

    def _validate(self, scenario: Scenario) -> bool:
        check = ReclaimCheck(
            self._shares,
            self._session.queues,
            allocated=self._frozen,
            allocated_non_preemptible=self._frozen_fixed,
            charges=self._charges,
            count_moved=not self._session.parameters.allow_consolidating_reclaim,
            multiplier=self.saturation_multiplier,
        )
        return check.allows(scenario)


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    return Amounts(*map(sum, zip(NOTHING, *amounts, strict=True)))
