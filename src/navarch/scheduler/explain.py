"""Why a job waits, as data: how far it got, which rule refused which nodes, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from navarch.core.errors import NotFoundError
from navarch.core.explanation import Attempt, Explanation, Refusal, Shortfall
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.decision import Bind, DecisionLog, Evict, Nominate
from navarch.scheduler.fit import Fit, Misfit
from navarch.scheduler.gang import charge, tasks_to_place
from navarch.scheduler.placing import JobPlacing
from navarch.scheduler.plan import describe
from navarch.scheduler.quantity import GPU, Amounts, gpus
from navarch.scheduler.request import GpuKind, Request
from navarch.scheduler.status import ACTIVE_USED_MASK, TaskStatus

if TYPE_CHECKING:
    from navarch.scheduler.cluster import Cluster
    from navarch.scheduler.registry import PluginRegistry
    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.node import Node
    from navarch.scheduler.state.task import Task

EXAMPLES: Final = 5
"""How many nodes are named for one rule."""
CLOSEST: Final = 3
"""How many nodes are named that lack the least."""


def why_job(
    cluster: Cluster,
    config: SchedulerConfig | None,
    job: str,
    *,
    registry: PluginRegistry | None = None,
) -> Explanation:
    """Return what a cycle makes of one job, and why.

    Raises:
        NotFoundError: There is no such job.
    """
    log = DecisionLog()
    session = run_session(cluster, config or SchedulerConfig(), registry=registry, sink=log)
    return explain_job(session, job, [describe(d) for d in log.decisions if _is_about(d, job)])


def why_pending(
    cluster: Cluster, config: SchedulerConfig | None, *, registry: PluginRegistry | None = None
) -> list[Explanation]:
    """Return for every job that a cycle leaves waiting how far it got, and why, by name."""
    log = DecisionLog()
    session = run_session(cluster, config or SchedulerConfig(), registry=registry, sink=log)
    return [
        explain_job(session, name, [describe(d) for d in log.decisions if _is_about(d, name)])
        for name in sorted(session.jobs)
        if session.jobs[name].has_pending
    ]


def _is_about(decision: object, job: str) -> bool:
    if not isinstance(decision, Bind | Evict | Nominate):
        return False
    return decision.job == job or getattr(decision, "beneficiary", None) == job


def explain_job(session: Session, name: str, decisions: Sequence[str] = ()) -> Explanation:
    """Return why a job is as it is at the end of a session; nothing is changed.

    Raises:
        NotFoundError: There is no such job.
    """
    job = session.jobs.get(name)
    if job is None:
        raise NotFoundError(f"no job is called {name!r}; there are {len(session.jobs)} jobs")
    state = _state(job)
    if not job.has_pending:
        return Explanation(
            job=name,
            queue=job.queue,
            state=state,
            summary=f"job {name} has all its tasks placed",
            decisions=tuple(decisions),
        )
    return _Case(session, job, tuple(decisions)).explain(state)


def _state(job: Job) -> str:
    if not job.has_pending and job.count(TaskStatus.PIPELINED):
        return "promised"
    if not job.has_pending:
        return "started" if job.count(TaskStatus.BINDING) else "running"
    return "waiting" if job.ready else "not ready"


class _Case:
    """One job that waits."""

    def __init__(self, session: Session, job: Job, decisions: tuple[str, ...]) -> None:
        self._session = session
        self._job = job
        self._decisions = decisions
        self._tasks = tasks_to_place(session, job, real=True)
        self._remedies: list[str] = []
        self._reasons: list[str] = []

    def explain(self, state: str) -> Explanation:
        job = self._job
        attempt: Attempt | None = None
        if not job.ready:
            self._lacks_members()
        elif self._queue_allows():
            attempt = self._attempt()
            self._suggest(attempt)
        self._reasons += self._said()
        return Explanation(
            job=job.name,
            queue=job.queue,
            state=state,
            summary=self._summary(attempt),
            decisions=self._decisions,
            reasons=tuple(dict.fromkeys(self._reasons)),
            attempt=attempt,
            remedies=tuple(self._remedies),
        )

    def _summary(self, attempt: Attempt | None) -> str:
        name = self._job.name
        if attempt is None:
            return f"job {name} waits: {self._reasons[0]}"
        if attempt.placed == attempt.of:
            return f"job {name} waits, though all of its {attempt.of} tasks would fit one by one"
        return (
            f"job {name} waits: {attempt.placed} of {attempt.of} tasks that start together would "
            f"find a place"
        )

    def _lacks_members(self) -> None:
        for pod_set in self._job.pod_sets.values():
            if not pod_set.ready:
                missing = pod_set.min_available - len(pod_set.tasks)
                text = f"pod set {pod_set.name} needs {pod_set.min_available} members"
                self._reasons.append(f"{text}, there are {len(pod_set.tasks)}")
                self._remedies.append(f"create {max(1, missing)} more tasks of {pod_set.name}")

    def _queue_allows(self) -> bool:
        if self._session.queues.leaf(self._job.queue) is None:
            self._reasons.append(f"queue {self._job.queue} cannot have jobs, or does not exist")
            self._remedies.append("put the job into a queue that has none below it")
            return False
        verdict = self._session.is_job_over_capacity(self._job, self._tasks)
        if verdict.schedulable:
            return True
        self._reasons.append(verdict.message)
        over = verdict.used + verdict.requested - verdict.bound
        bound = "limit" if verdict.reason == "OverLimit" else "quota"
        self._remedies.append(
            f"raise the {bound} of queue {verdict.queue} by {over:g} {verdict.resource}, or wait "
            f"until jobs in it give back as much"
        )
        return False

    def _attempt(self) -> Attempt:
        """Place the tasks one after another, and look closely at the first that has no place."""
        session = self._session
        with session.attempt("why") as statement:
            placing = JobPlacing(session, statement, self._job, real=True)
            placed: list[str] = []
            for task in self._tasks:
                if not placing.place_one(task):
                    return self._failed(task, placed)
                placed.append(str(task.node))
            return Attempt(placed=len(placed), of=len(self._tasks), on=tuple(placed))

    def _failed(self, task: Task, placed: list[str]) -> Attempt:
        session = self._session
        refused: dict[tuple[str, str], list[Node]] = {}
        beforehand = session.pre_predicate(task, self._job)
        closest: list[tuple[float, str, str]] = []
        if beforehand is not None:
            refused[beforehand.plugin, beforehand.reason] = list(session.node_list)
        else:
            for node in session.node_list:
                objection = session.predicate(task, self._job, node)
                if not node.fits_eventually(task.request):
                    refused.setdefault(("resources", "not enough resources"), []).append(node)
                    ours = node.name in placed
                    large = _is_large_enough(node, task.request)
                    if large and not ours and _is_about_room(objection):
                        closest.append(_shortfall(task.request, node))
                elif objection is not None and session.fit(task, self._job, node) is Fit.NO:
                    key = (objection.plugin, str(objection.reason))
                    refused.setdefault(key, []).append(node)
        closest.sort()
        return Attempt(
            placed=len(placed),
            of=len(self._tasks),
            on=tuple(placed),
            failed_task=task.uid,
            asks_for=describe_request(task.request),
            refusals=tuple(
                Refusal(
                    rule=rule,
                    reason=reason,
                    nodes=len(nodes),
                    examples=tuple(node.name for node in nodes[:EXAMPLES]),
                    would_admit=0
                    if rule == "resources"
                    else sum(_room(node, task.request) for node in nodes),
                )
                for (rule, reason), nodes in sorted(
                    refused.items(), key=lambda item: (-len(item[1]), item[0])
                )
            ),
            closest=tuple(
                Shortfall(node=name, lacks=lacks) for _, name, lacks in closest[:CLOSEST]
            ),
        )

    def _suggest(self, attempt: Attempt) -> None:
        if attempt.placed == attempt.of:
            self._remedies.append("nothing about nodes: see what was said about the job")
            return
        missing = attempt.of - attempt.placed
        count = "one more place" if missing == 1 else f"{missing} more places"
        self._remedies.append(f"{count} for a task that asks for {attempt.asks_for}")
        rules = [refusal for refusal in attempt.refusals if refusal.would_admit]
        enough = [refusal for refusal in rules if refusal.would_admit >= missing]
        self._remedies += [_lift(refusal) for refusal in enough]
        if not enough and sum(refusal.would_admit for refusal in rules) >= missing:
            self._remedies.append("all of these: " + "; ".join(map(_lift, rules)))
        if attempt.closest:
            nearest = attempt.closest[0]
            only = "" if missing == 1 else " (and as much elsewhere for the others)"
            self._remedies.append(f"free {nearest.lacks} on {nearest.node}{only}")
        self._suggest_victims()

    def _suggest_victims(self) -> None:
        """Say what stands between the job and the places of others."""
        session, job = self._session, self._job
        queue = session.queues.by_name[job.queue]
        allocated = session.get_queue_allocated_resources(queue)
        fair = session.get_queue_fair_share(queue)
        if allocated is not None and fair is not None:
            wanted = charge(self._tasks)
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

    def _said(self) -> list[str]:
        """Return what actions wrote down about the job."""
        session = self._session
        misfits = session.job_misfits.get(self._job.name, ())
        said = [misfit.render().strip() if misfit.details else misfit.summary for misfit in misfits]
        said += [
            f"{gave_up.action} gave up after {gave_up.reason}, at job {gave_up.job}"
            for gave_up in session.gave_up
        ]
        return said


def _lift(refusal: Refusal) -> str:
    where = refusal.examples[0] if refusal.nodes == 1 else f"{refusal.nodes} nodes"
    return f"lift what {refusal.rule} says of {where} ({refusal.reason})"


def _is_large_enough(node: Node, request: Request) -> bool:
    """Say whether the node could hold the request if nobody else were there."""
    whole = node.allocatable
    return (
        whole.gpu >= request.gpu.whole
        and whole.cpu >= request.cpu_milli
        and whole.memory >= request.memory_bytes
    )


def _is_about_room(objection: Misfit | None) -> bool:
    return objection is None or objection.passes or "pod slots" in objection.reason


def _shortfall(request: Request, node: Node) -> tuple[float, str, str]:
    """Return how much a node lacks, for sorting and in words."""
    idle, coming = node.idle, node.releasing
    lacks = {
        "GPUs": (request.gpu.whole - idle.gpu - coming.gpu) / GPU,
        "CPU cores": (request.cpu_milli - idle.cpu - coming.cpu) / 1000,
        "GB of memory": (request.memory_bytes - idle.memory - coming.memory) / 10**9,
        "pod slots": float(request.pods - idle.pods - coming.pods),
    }
    missing = {what: amount for what, amount in lacks.items() if amount > 0}
    if not missing:
        return (0.0, node.name, "a shared GPU or a slice")
    words = " and ".join(f"{amount:g} {what}" for what, amount in missing.items())
    return (sum(missing.values()), node.name, words)


def _room(node: Node, request: Request) -> int:
    """Return how many of the request the node could hold by its free amounts alone."""
    idle, coming = node.idle, node.releasing
    free = (
        (idle.cpu + coming.cpu, request.cpu_milli),
        (idle.memory + coming.memory, request.memory_bytes),
        (idle.gpu + coming.gpu, request.gpu.whole),
        (idle.pods + coming.pods, request.pods),
    )
    return max(0, min((have // need for have, need in free if need), default=1))


def describe_request(request: Request) -> str:
    """Return what a task asks for, for people."""
    gpu = request.gpu
    parts = []
    match gpu.kind:
        case GpuKind.WHOLE:
            parts.append(f"{gpu.count} GPUs" if gpu.count != 1 else "1 GPU")
        case GpuKind.FRACTION:
            parts.append(f"{gpu.fraction:g} of {gpu.devices} GPU")
        case GpuKind.MEMORY:
            parts.append(f"{gpu.memory_mib} MiB of {gpu.devices} GPU")
        case GpuKind.MIG:
            parts += [f"{count} x {profile}" for profile, count in sorted(gpu.mig.items())]
        case GpuKind.NONE:
            pass
    if request.cpu_milli:
        parts.append(f"{request.cpu_milli / 1000:g} cores")
    if request.memory_bytes:
        parts.append(f"{request.memory_bytes / 10**9:g} GB")
    return ", ".join(parts) or "a pod slot"


def _gpus(amounts: Amounts) -> str:
    return "unlimited" if amounts.gpu < 0 else f"{gpus(amounts.gpu):g}"
