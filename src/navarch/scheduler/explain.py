"""Why a job waits, as data: how far it got, which rule refused which nodes, what would help."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from navarch.core.errors import NotFoundError
from navarch.core.explanation import (
    Attempt,
    DomainRoom,
    Explanation,
    QueueBound,
    RuleRefusal,
)
from navarch.core.remedy import Remedy
from navarch.core.shortfall import Shortfall
from navarch.scheduler import remedies
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.framework.decision import Bind, DecisionLog, Evict, Nominate
from navarch.scheduler.framework.gang import requested_quota, tasks_to_place
from navarch.scheduler.framework.placing import JobPlacing
from navarch.scheduler.model.fit import Fit, UnschedulableReason
from navarch.scheduler.model.quantity import Amounts, gpus
from navarch.scheduler.model.shortfall import (
    describe_task,
    how_much,
    is_large_enough,
    room,
    shortfall,
)
from navarch.scheduler.model.status import ACTIVE_USED_MASK, TaskStatus
from navarch.scheduler.plan import describe
from navarch.scheduler.remedies import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from navarch.scheduler.framework.registry import PluginRegistry
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.capacity import CapacityVerdict
    from navarch.scheduler.model.cluster import Cluster
    from navarch.scheduler.model.fit import UnschedulableJob
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task

EXAMPLES: Final = 5
"""How many nodes are named for one rule, and how many jobs."""
CLOSEST: Final = 3
"""How many nodes are named that lack the least."""
QUEUE_BOUNDS: Final = "is_task_allocation_on_node_over_capacity"
"""Where queues refuse tasks node by node."""


def why_job(
    cluster: Cluster,
    config: SchedulerConfig | None,
    job: str,
    *,
    registry: PluginRegistry | None = None,
    clock: Callable[[], float] | None = None,
) -> Explanation:
    """Return what a cycle makes of one job, and why.

    With a `clock` of seconds, its actions keep to `seconds_per_action`, as in `run_cycle`.

    Raises:
        NotFoundError: There is no such job.
    """
    log = DecisionLog()
    session = run_session(
        cluster, config or SchedulerConfig(), registry=registry, sink=log, clock=clock
    )
    return explain_job(session, job, [describe(d) for d in log.decisions if _is_about(d, job)])


def why_pending(
    cluster: Cluster, config: SchedulerConfig | None, *, registry: PluginRegistry | None = None
) -> list[Explanation]:
    """Return for every job that a cycle leaves waiting how far it got, and why, by name."""
    log = DecisionLog()
    session = run_session(cluster, config or SchedulerConfig(), registry=registry, sink=log)
    line = Line.of(session)
    return [
        explain_job(session, name, [describe(d) for d in log.decisions if _is_about(d, name)], line)
        for name in sorted(session.jobs)
        if session.jobs[name].has_pending
    ]


def _is_about(decision: object, job: str) -> bool:
    if not isinstance(decision, Bind | Evict | Nominate):
        return False
    return decision.job == job or getattr(decision, "beneficiary", None) == job


@dataclass(frozen=True, slots=True)
class Line:
    """The jobs that wait, in the order in which each queue serves them."""

    queues: dict[str, list[str]]

    @classmethod
    def of(cls, session: Session) -> Line:
        """Return who waits at the end of a session."""
        waiting: dict[str, list[Job]] = {}
        for job in session.jobs.values():
            if job.has_pending and job.ready:
                waiting.setdefault(job.queue, []).append(job)
        key = session.job_key() or cmp_to_key(session.compare_jobs)
        return cls(
            {queue: [job.name for job in sorted(jobs, key=key)] for queue, jobs in waiting.items()}
        )

    def before(self, job: Job) -> list[str]:
        """Return those of its queue that are served first."""
        names = self.queues.get(job.queue, [])
        return names[: names.index(job.name)] if job.name in names else []


def explain_job(
    session: Session, name: str, decisions: Sequence[str] = (), line: Line | None = None
) -> Explanation:
    """Return why a job is as it is at the end of a session; nothing is changed.

    Raises:
        NotFoundError: There is no such job.
    """
    job = session.jobs.get(name)
    if job is None:
        raise NotFoundError(f"no job is called {name!r}; {_there_are(session.jobs)}")
    state = _state(job)
    if not job.has_pending:
        return Explanation(
            job=name,
            queue=job.queue,
            state=state,
            summary=f"job {name} has all its tasks placed{_where(job)}",
            decisions=tuple(decisions),
        )
    case = _Case(session, job, (line or Line.of(session)).before(job))
    return replace(case.explain(), state=state, decisions=tuple(decisions))


def _there_are(jobs: Iterable[str]) -> str:
    names = sorted(jobs)
    if not names:
        return "there are no jobs"
    more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
    return f"there are {', '.join(names[:EXAMPLES])}{more}"


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


class _Case:
    """One job that waits."""

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
            self._lacks_members()
        elif self._session.queues.leaf(job.queue) is None:
            self._reasons.append(f"queue {job.queue} cannot have jobs, or does not exist")
            self._remedies.append(remedies.choose_another_queue(job.queue))
        else:
            verdict = self._session.is_job_over_capacity(job, self._tasks)
            if verdict.schedulable:
                attempt = self._attempt()
            else:
                bounds = tuple(map(_bound, (verdict, *verdict.also)))
                attempt = self._attempt_beyond(verdict)
            self._tell_who_goes_first(attempt)
        self._reasons += self._said()
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
            found = f"{attempt.placed} of {attempt.of} tasks would find a place"
            return f": within {attempt.within}, {found}"
        if attempt.placed == attempt.of:
            return f", though all of its {attempt.of} tasks would fit one by one"
        if attempt.of == 1:
            return ": its task finds no place"
        return f": {attempt.placed} of {attempt.of} tasks that start together would find a place"

    def _lacks_members(self) -> None:
        for pod_set in self._job.pod_sets.values():
            if not pod_set.ready:
                missing = pod_set.min_available - len(pod_set.tasks)
                text = f"pod set {pod_set.name} needs {pod_set.min_available} members"
                self._reasons.append(f"{text}, there are {len(pod_set.tasks)}")
                self._remedies.append(remedies.create_tasks(pod_set.name, max(1, missing)))

    def _attempt_beyond(self, verdict: CapacityVerdict) -> Attempt:
        """Find out whether a quota or limit is all that stands in the way."""
        self._reasons += [each.message for each in (verdict, *verdict.also)]
        with self._session.without(QUEUE_BOUNDS):
            attempt, missing = self._try()
        self._remedies += remedies.past_bounds(verdict, missing)
        return attempt

    def _attempt(self) -> Attempt:
        attempt, missing = self._try()
        if missing:
            self._suggest(attempt, missing)
            return attempt
        for refusal in reversed(self._misfits()):
            sizes = [(size, name) for name, size in refusal.rooms if size is not None]
            if sizes and max(sizes)[0] < refusal.wanted:
                return self._closest_domain(refusal, *max(sizes))
        self._reasons.append("no node stands in the way")
        return attempt

    def _try(self) -> tuple[Attempt, list[Missing]]:
        """Place what can be placed, one task after another; look closely at the first that cannot.

        Also return how many of the rest there are, by what they ask for. Of equal tasks the first
        that finds no place speaks for all.
        """
        session = self._session
        failed: Attempt | None = None
        placed: list[str] = []
        missing: Counter[int] = Counter()
        asking: dict[int, str] = {}
        with session.attempt("why") as statement:
            placing = JobPlacing(session, statement, self._job, real=True)
            for task in self._tasks:
                kind = session.kinds.number(task.spec)
                if not missing[kind] and placing.place_one(task):
                    placed.append(str(task.node))
                    continue
                missing[kind] += 1
                asking.setdefault(kind, describe_task(task))
                failed = failed or self._failed(task, placed)
        attempt = failed or Attempt(placed=0, of=len(self._tasks), on=())
        whole = replace(attempt, placed=len(placed), on=tuple(placed))
        return whole, [Missing(missing[kind], asked) for kind, asked in asking.items()]

    def _failed(self, task: Task, placed: list[str]) -> Attempt:
        """Return which rule refuses which nodes to a task, and which nodes lack the least."""
        session = self._session
        refused: dict[tuple[str, str], list[Node]] = {}
        closest: list[Shortfall] = []
        beforehand = session.pre_predicate(task, self._job)
        if beforehand is not None:
            refused[beforehand.plugin, beforehand.reason] = list(session.node_list)
        else:
            for node in session.node_list:
                refusal = self._refusal(task, node)
                if refusal is None:
                    continue
                refused.setdefault(refusal, []).append(node)
                if refusal == NOT_FREE and node.name not in placed:
                    closest.append(shortfall(task.request, node))
        return Attempt(
            placed=0,
            of=len(self._tasks),
            on=(),
            failed_task=task.uid,
            asks_for=describe_task(task),
            refusals=tuple(
                _told(rule, reason, nodes, task)
                for (rule, reason), nodes in sorted(
                    refused.items(), key=lambda item: (-len(item[1]), item[0])
                )
            ),
            closest=tuple(sorted(closest, key=how_much)[:CLOSEST]),
        )

    def _refusal(self, task: Task, node: Node) -> tuple[str, str] | None:
        """Return who refuses the node and why; what will not pass rather than what will."""
        objection = self._session.predicate(task, self._job, node)
        if node.fits_eventually(task.request):
            if objection is None or self._session.fit(task, self._job, node) is not Fit.NO:
                return None
            return (objection.plugin, str(objection.reason))
        if not _is_about_room(objection):
            assert objection is not None, "an objection that is not there is not about anything"
            return (objection.plugin, str(objection.reason))
        return NOT_FREE if is_large_enough(node, task.request) else TOO_SMALL

    def _closest_domain(self, refusal: UnschedulableJob, most: int, best: str) -> Attempt:
        """Return how far those that must be together get in the domain that has most room."""
        asked = describe_task(self._tasks[0])
        self._remedies += [
            remedies.places_within(best, Missing(refusal.wanted - most, asked)),
            remedies.spread_wider(refusal.level),
        ]
        return Attempt(
            placed=most,
            of=refusal.wanted,
            on=(),
            asks_for=asked,
            within=best,
            domains=tuple(DomainRoom(name=name, room=size) for name, size in refusal.rooms),
        )

    def _suggest(self, attempt: Attempt, missing: Sequence[Missing]) -> None:
        self._remedies.append(remedies.places(missing))
        if len(missing) == 1:
            self._suggest_lifting(attempt, missing[0])
        if len(self._remedies) == 1 and not attempt.closest:
            self._suggest_lifting_and_freeing(attempt, missing)
        if attempt.closest:
            self._remedies.append(remedies.free(attempt.closest[0], missing))
        self._suggest_victims()

    def _suggest_lifting(self, attempt: Attempt, missing: Missing) -> None:
        rules = [refusal for refusal in attempt.refusals if refusal.would_admit]
        enough = [refusal for refusal in rules if refusal.would_admit >= missing.tasks]
        self._remedies += map(remedies.lift, enough)
        if rules and not enough:
            self._remedies.append(remedies.lift_all(rules, missing))

    def _suggest_lifting_and_freeing(self, attempt: Attempt, missing: Sequence[Missing]) -> None:
        """Name rules that keep the task off nodes that are full, too: both would have to change."""
        task = self._job.tasks[attempt.failed_task]
        for refusal in attempt.refusals:
            nodes = [self._session.nodes[name] for name in refusal.names]
            large = [node for node in nodes if is_large_enough(node, task.request)]
            if large and refusal.rule != NOT_FREE[0]:
                nearest = min((shortfall(task.request, node) for node in large), key=how_much)
                self._remedies.append(remedies.lift_and_free(refusal, nearest, missing))

    def _suggest_victims(self) -> None:
        """Say what stands between the job and the places of others."""
        session, job = self._session, self._job
        queue = session.queues.by_name[job.queue]
        allocated = session.get_queue_allocated_resources(queue)
        fair = session.get_queue_fair_share(queue)
        if allocated is not None and fair is not None:
            wanted = requested_quota(self._tasks)
            figures = (
                f"queue {queue.name} has {_gpus(allocated)} and would have "
                f"{_gpus(allocated.plus(wanted))} of its fair share of {_gpus(fair)} GPUs"
            )
            if session.can_reclaim_resources(job):
                self._reasons.append(f"{figures}: it may take from others, but none can be taken")
            else:
                self._reasons.append(f"{figures}: it may not take from other queues")
        lower = [
            other
            for other in session.jobs.values()
            if other.queue == job.queue
            and other.preemptible
            and other.priority < job.priority
            and other.count(ACTIVE_USED_MASK)
        ]
        if not lower:
            self._reasons.append("no job of its queue has a lower priority and may be stopped")
        else:
            named = self._named([other.name for other in lower])
            self._reasons.append(f"stopping work of lower priority would not do: {named}")

    def _tell_who_goes_first(self, attempt: Attempt) -> None:
        """Name those who are served before the job: what comes free is theirs first."""
        session = self._session
        count = len(self._in_front)
        if count:
            go = "1 job of its queue goes" if count == 1 else f"{count} jobs of its queue go"
            self._reasons.append(f"{go} first: {self._named(self._in_front)}")
        given = [
            job.name
            for job in session.jobs.values()
            if job is not self._job and job.count(TaskStatus.BINDING)
        ]
        if given and attempt.placed < attempt.of:
            self._reasons.append(f"room was given in this cycle to: {self._named(given)}")

    def _named(self, names: Sequence[str]) -> str:
        jobs = self._session.jobs
        first = [f"{name} (priority {jobs[name].priority})" for name in names[:EXAMPLES]]
        return ", ".join([*first, "..."] if len(names) > EXAMPLES else first)

    def _misfits(self) -> Sequence[UnschedulableJob]:
        return self._session.unschedulable_jobs.get(self._job.name, ())

    def _said(self) -> list[str]:
        """Return what actions wrote down about the job."""
        said = [
            refusal.render().strip() if refusal.details and not refusal.rooms else refusal.summary
            for refusal in self._misfits()
        ]
        said += [
            f"{gave_up.action} gave up after {gave_up.reason}, at job {gave_up.job}"
            for gave_up in self._session.gave_up
        ]
        return said


NOT_FREE: Final = ("resources", "not enough is free")
TOO_SMALL: Final = ("resources", "too small, even if nobody else were there")


def _is_about_room(objection: UnschedulableReason | None) -> bool:
    return objection is None or objection.passes or "pod slots" in objection.reason


def _told(rule: str, reason: str, nodes: Sequence[Node], task: Task) -> RuleRefusal:
    names = tuple(node.name for node in nodes)
    about_room = rule == NOT_FREE[0]
    return RuleRefusal(
        rule=rule,
        reason=reason,
        nodes=len(names),
        examples=names[:EXAMPLES],
        names=names,
        would_admit=0 if about_room else sum(room(node, task.request) for node in nodes),
    )


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
