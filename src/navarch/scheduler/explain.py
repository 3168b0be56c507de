"""Explanations of pending jobs: how many tasks fit, which rules reject nodes, what would help."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from navarch.core.errors import NotFoundError
from navarch.core.event import (
    Attempt,
    DomainRoom,
    Explanation,
    QueueBound,
    Remedy,
)
from navarch.scheduler import remedies
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.framework.decision import Bind, DecisionLog, Evict, Nominate
from navarch.scheduler.framework.gang import requested_quota, tasks_to_place
from navarch.scheduler.model.fit import (
    describe_task,
    how_much,
    is_large_enough,
    shortfall,
)
from navarch.scheduler.model.quantity import Amounts, gpus
from navarch.scheduler.model.status import ACTIVE_USED_MASK, TaskStatus
from navarch.scheduler.plan import describe
from navarch.scheduler.remedies import Missing
from navarch.scheduler.trial_placement import EXAMPLES, RESOURCES, try_placing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.framework.registry import PluginRegistry
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.cluster import Cluster
    from navarch.scheduler.model.fit import UnschedulableJob
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.quantity import CapacityVerdict

QUEUE_BOUNDS: Final = "is_task_allocation_on_node_over_capacity"
"""The extension point at which queues reject tasks node by node."""


def why_job(
    cluster: Cluster,
    config: SchedulerConfig | None,
    job: str,
    *,
    registry: PluginRegistry | None = None,
    clock: Callable[[], float] | None = None,
) -> Explanation:
    """Run a cycle and return what happens to one job, and why.

    With a `clock` in seconds, actions keep to `seconds_per_action`, as in `run_cycle`.

    Raises:
        NotFoundError: No job has this name.
    """
    log = DecisionLog()
    session = run_session(
        cluster, config or SchedulerConfig(), registry=registry, sink=log, clock=clock
    )
    return explain_job(session, job, _decisions_about(log, job))


def why_pending(
    cluster: Cluster, config: SchedulerConfig | None, *, registry: PluginRegistry | None = None
) -> list[Explanation]:
    """Run a cycle and return an explanation of every job that stays pending, by name."""
    log = DecisionLog()
    session = run_session(cluster, config or SchedulerConfig(), registry=registry, sink=log)
    order = PendingOrder.of(session)
    return [
        explain_job(session, name, _decisions_about(log, name), order)
        for name in sorted(session.jobs)
        if session.jobs[name].has_pending
    ]


def _decisions_about(log: DecisionLog, job: str) -> list[str]:
    """Return the decisions that place or evict tasks of the job, or evict others for it."""
    return [
        describe(decision)
        for decision in log.decisions
        if isinstance(decision, Bind | Evict | Nominate)
        and job in (decision.job, getattr(decision, "beneficiary", None))
    ]


@dataclass(frozen=True, slots=True)
class PendingOrder:
    """The pending jobs of each queue, in the order in which the queue serves them."""

    queues: dict[str, list[str]]

    @classmethod
    def of(cls, session: Session) -> PendingOrder:
        """Return the pending jobs at the end of a session."""
        pending: dict[str, list[Job]] = {}
        for job in session.jobs.values():
            if job.has_pending and job.ready:
                pending.setdefault(job.queue, []).append(job)
        key = session.job_key() or cmp_to_key(session.compare_jobs)
        return cls(
            {queue: [job.name for job in sorted(jobs, key=key)] for queue, jobs in pending.items()}
        )

    def before(self, job: Job) -> list[str]:
        """Return the jobs that the same queue serves before this one."""
        names = self.queues.get(job.queue, [])
        return names[: names.index(job.name)] if job.name in names else []


def explain_job(
    session: Session, name: str, decisions: Sequence[str] = (), order: PendingOrder | None = None
) -> Explanation:
    """Return why a job is in its state at the end of a session, without changing anything.

    Raises:
        NotFoundError: No job has this name.
    """
    job = session.jobs.get(name)
    if job is None:
        names = sorted(session.jobs)
        more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
        known = (
            f"the jobs are {', '.join(names[:EXAMPLES])}{more}" if names else "there are no jobs"
        )
        raise NotFoundError(f"job {name!r} not found; {known}")
    state = _state(job)
    if not job.has_pending:
        return Explanation(
            job=name,
            queue=job.queue,
            state=state,
            summary=f"job {name} has all its tasks placed{_where(job)}",
            decisions=tuple(decisions),
        )
    before = (order or PendingOrder.of(session)).before(job)
    explanation = _PendingJob(session, job, before).explain()
    return replace(explanation, state=state, decisions=tuple(decisions))


def _state(job: Job) -> str:
    if not job.has_pending and job.count(TaskStatus.PIPELINED):
        return "promised"
    if not job.has_pending:
        return "started" if job.count(TaskStatus.BINDING) else "running"
    return "waiting" if job.ready else "not ready"


def _where(job: Job) -> str:
    nodes = sorted({str(task.node) for task in job.tasks.values() if task.node is not None})
    more = ", ..." if len(nodes) > EXAMPLES else ""
    return f": on {', '.join(nodes[:EXAMPLES])}{more}" if nodes else ""


class _PendingJob:
    """The explanation of one pending job; reasons and remedies are collected on the way."""

    def __init__(self, session: Session, job: Job, in_front: Sequence[str]) -> None:
        self._session = session
        self._job = job
        self._in_front = in_front
        self._tasks = tasks_to_place(session, job, real=True)
        self._remedies: list[Remedy] = []
        self._reasons: list[str] = []

    def explain(self) -> Explanation:
        job = self._job
        attempt: Attempt | None = None
        bounds: tuple[QueueBound, ...] = ()
        if not job.ready:
            self._explain_missing_tasks()
        elif self._session.queues.leaf(job.queue) is None:
            self._reasons.append(f"queue {job.queue} does not exist or has child queues")
            self._remedies.append(remedies.choose_another_queue(job.queue))
        else:
            verdict = self._session.is_job_over_capacity(job, self._tasks)
            if verdict.schedulable:
                attempt = self._attempt()
            else:
                bounds = tuple(map(_bound, (verdict, *verdict.also)))
                attempt = self._attempt_beyond(verdict)
            self._explain_order(attempt)
        self._reasons += self._recorded_reasons()
        return Explanation(
            job=job.name,
            queue=job.queue,
            state="",
            summary=f"job {job.name} waits{self._summary(attempt, bounds)}",
            reasons=tuple(dict.fromkeys(self._reasons)),
            bound=bounds[0] if bounds else None,
            also_bound=bounds[1:],
            ahead=len(self._in_front),
            in_front=tuple(self._in_front[:EXAMPLES]),
            attempt=attempt,
            remedies=tuple(self._remedies),
        )

    def _summary(self, attempt: Attempt | None, bounds: Sequence[QueueBound]) -> str:
        if attempt is None or bounds:
            return f": {self._reasons[0]}"
        if attempt.within:
            return f": {attempt.placed} of {attempt.of} tasks fit within {attempt.within}"
        if attempt.placed == attempt.of:
            return f", though each of its {attempt.of} tasks fits by itself"
        if attempt.of == 1:
            return ": its task fits on no node"
        return f": {attempt.placed} of {attempt.of} tasks that start together fit"

    def _explain_missing_tasks(self) -> None:
        for pod_set in self._job.pod_sets.values():
            if not pod_set.ready:
                missing = pod_set.min_available - len(pod_set.tasks)
                text = f"pod set {pod_set.name} needs {pod_set.min_available} tasks"
                self._reasons.append(f"{text} and has {len(pod_set.tasks)}")
                self._remedies.append(remedies.create_tasks(pod_set.name, max(1, missing)))

    def _attempt_beyond(self, verdict: CapacityVerdict) -> Attempt:
        """Try again without the bounds of queues: is a quota or limit the only obstacle?"""
        self._reasons += [each.message for each in (verdict, *verdict.also)]
        with self._session.without(QUEUE_BOUNDS):
            attempt, missing = try_placing(self._session, self._job, self._tasks)
        self._remedies += remedies.past_bounds(verdict, missing)
        return attempt

    def _attempt(self) -> Attempt:
        attempt, missing = try_placing(self._session, self._job, self._tasks)
        if missing:
            self._suggest(attempt, missing)
            return attempt
        for refusal in reversed(self._unschedulable()):
            sizes = [(size, name) for name, size in refusal.rooms if size is not None]
            if sizes and max(sizes)[0] < refusal.wanted:
                return self._closest_domain(refusal, *max(sizes))
        self._reasons.append("every task fits on some node")
        return attempt

    def _closest_domain(self, refusal: UnschedulableJob, most: int, best: str) -> Attempt:
        """Return the attempt for tasks that must be in one domain, in the domain with most room."""
        request = describe_task(self._tasks[0])
        self._remedies += [
            remedies.places_within(best, Missing(refusal.wanted - most, request)),
            remedies.spread_wider(refusal.level),
        ]
        return Attempt(
            placed=most,
            of=refusal.wanted,
            on=(),
            asks_for=request,
            within=best,
            domains=tuple(DomainRoom(name=name, room=size) for name, size in refusal.rooms),
        )

    def _suggest(self, attempt: Attempt, missing: Sequence[Missing]) -> None:
        self._remedies.append(remedies.places(missing))
        if len(missing) == 1:
            rules = [refusal for refusal in attempt.refusals if refusal.would_admit]
            enough = [refusal for refusal in rules if refusal.would_admit >= missing[0].tasks]
            self._remedies += map(remedies.lift, enough)
            if rules and not enough:
                self._remedies.append(remedies.lift_all(rules, missing[0]))
        if len(self._remedies) == 1 and not attempt.closest:
            self._suggest_lifting_and_freeing(attempt, missing)
        if attempt.closest:
            self._remedies.append(remedies.free(attempt.closest[0], missing))
        self._suggest_victims()

    def _suggest_lifting_and_freeing(self, attempt: Attempt, missing: Sequence[Missing]) -> None:
        """Suggest rules to lift on nodes that are also full: both have to change."""
        task = self._job.tasks[attempt.failed_task]
        for refusal in attempt.refusals:
            nodes = [self._session.nodes[name] for name in refusal.names]
            large = [node for node in nodes if is_large_enough(node, task.request)]
            if large and refusal.rule != RESOURCES:
                nearest = min((shortfall(task.request, node) for node in large), key=how_much)
                self._remedies.append(remedies.lift_and_free(refusal, nearest, missing))

    def _suggest_victims(self) -> None:
        """Explain why the job does not receive resources of other jobs."""
        session, job = self._session, self._job
        queue = session.queues.by_name[job.queue]
        allocated = session.get_queue_allocated_resources(queue)
        fair = session.get_queue_fair_share(queue)
        if allocated is not None and fair is not None:
            wanted = requested_quota(self._tasks)
            figures = (
                f"queue {queue.name} uses {_gpus(allocated)} and would use "
                f"{_gpus(allocated.plus(wanted))} of its fair share of {_gpus(fair)} GPUs"
            )
            if session.can_reclaim_resources(job):
                self._reasons.append(f"{figures}: it may reclaim, but no victims free enough")
            else:
                self._reasons.append(f"{figures}: it may not reclaim from other queues")
        lower = [
            other
            for other in session.jobs.values()
            if other.queue == job.queue
            and other.preemptible
            and other.priority < job.priority
            and other.count(ACTIVE_USED_MASK)
        ]
        if not lower:
            self._reasons.append("no preemptible job of its queue has a lower priority")
        else:
            named = self._named([other.name for other in lower])
            self._reasons.append(f"preempting jobs of lower priority frees too little: {named}")

    def _explain_order(self, attempt: Attempt) -> None:
        """Name the jobs that are served first and receive resources that become free."""
        session = self._session
        count = len(self._in_front)
        if count:
            jobs = "1 job of its queue is" if count == 1 else f"{count} jobs of its queue are"
            self._reasons.append(f"{jobs} served first: {self._named(self._in_front)}")
        given = [
            job.name
            for job in session.jobs.values()
            if job is not self._job and job.count(TaskStatus.BINDING)
        ]
        if given and attempt.placed < attempt.of:
            self._reasons.append(f"this cycle placed: {self._named(given)}")

    def _named(self, names: Sequence[str]) -> str:
        jobs = self._session.jobs
        first = [f"{name} (priority {jobs[name].priority})" for name in names[:EXAMPLES]]
        return ", ".join([*first, "..."] if len(names) > EXAMPLES else first)

    def _unschedulable(self) -> Sequence[UnschedulableJob]:
        return self._session.unschedulable_jobs.get(self._job.name, ())

    def _recorded_reasons(self) -> list[str]:
        """Return the reasons that actions recorded for the job."""
        recorded = [
            refusal.render().strip() if refusal.details and not refusal.rooms else refusal.summary
            for refusal in self._unschedulable()
        ]
        recorded += [
            f"{gave_up.action} gave up after {gave_up.reason}, at job {gave_up.job}"
            for gave_up in self._session.gave_up
        ]
        return recorded


def _bound(verdict: CapacityVerdict) -> QueueBound:
    return QueueBound(
        queue=verdict.queue,
        kind=verdict.bound_kind,
        resource=verdict.resource,
        bound=verdict.bound,
        used=verdict.used,
        asked=verdict.requested,
    )


def _gpus(amounts: Amounts) -> str:
    return "unlimited" if amounts.gpu < 0 else f"{gpus(amounts.gpu):g}"
