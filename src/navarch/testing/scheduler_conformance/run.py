"""Runs cases and reports which pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from navarch.core.errors import InvalidError
from navarch.scheduler.cycle import open_session, run_session
from navarch.scheduler.framework.decision import Bind, Decision, DecisionLog, Evict, Nominate
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import Cluster, JobSpec, ResourceClaim, TaskSpec
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.status import ALLOCATED_MASK, TaskStatus
from navarch.scheduler.plugins import built_in_plugins
from navarch.testing.scheduler_conformance.case import Case, cases_in, parse_case
from navarch.testing.scheduler_conformance.match import mismatches, unexplained

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.cluster import Cluster


RAN_FOR: Final = timedelta(seconds=60)
"""The age of every running job at the start of a round."""


def settle(session: Session, deleted_jobs: frozenset[str]) -> Cluster:
    """Return the cluster after everything that `session` decided has been carried out."""
    jobs = [
        _settle_job(session, job, deleted=job.name in deleted_jobs) for job in session.jobs.values()
    ]
    staying = {task.uid for job in jobs for task in job.tasks if task.status & ALLOCATED_MASK}
    leaving = {t.uid for job in jobs for t in job.tasks if t.status is TaskStatus.RELEASING}
    claims = [
        _settle_claim(session, claim, staying | leaving)
        for claim in session.cluster.resource_claims
    ]
    return replace(session.cluster, jobs=tuple(jobs), resource_claims=tuple(claims))


def _settle_job(session: Session, job: Job, *, deleted: bool) -> JobSpec:
    tasks = tuple(_settle_task(task, deleted=deleted) for task in job.tasks.values())
    started = any(task.status & ALLOCATED_MASK for task in tasks)
    return replace(
        job.spec,
        tasks=tasks,
        last_start=session.now - RAN_FOR if started else None,
        stale_since=job.stale_since,
    )


def _settle_task(task: Task, *, deleted: bool) -> TaskSpec:
    spec = task.spec
    if task.status is TaskStatus.RELEASING and deleted:
        return replace(spec, status=task.status, node=task.node)
    if task.status in (TaskStatus.RELEASING, TaskStatus.PIPELINED):
        return replace(spec, status=TaskStatus.PENDING, node=None, gpu_groups=())
    if task.status is TaskStatus.BINDING:
        return replace(spec, status=TaskStatus.RUNNING, node=task.node, gpu_groups=task.gpu_groups)
    return spec


def _settle_claim(session: Session, claim: ResourceClaim, users: set[str]) -> ResourceClaim:
    """Return the claim with its remaining users; without users its devices are free."""
    devices, holders = session.claims.allocation_of(claim)
    known = {uid for job in session.jobs.values() for uid in job.tasks}
    outside = [uid for uid in claim.reserved_for if uid not in known]
    staying = [uid for uid in holders if uid in users]
    if not staying:
        allocation = claim.allocation if outside else None
        return replace(claim, allocation=allocation, reserved_for=tuple(outside))
    return replace(claim, allocation=devices, reserved_for=(*outside, *staying))


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Whether one case passed, and if not, why not."""

    id: str
    passed: bool
    why: str = ""


class _FailingBinder(DecisionLog):
    """A sink that refuses every bind, like a broken node agent."""

    def accept(self, decision: Decision) -> str | None:
        if isinstance(decision, Bind):
            return "binding always fails in this case"
        return super().accept(decision)


def run_cases(document: object) -> Iterator[CaseResult]:
    """Yield the result of every case in a file of cases."""
    for entry, path in cases_in(document):
        yield run_document(entry, path)


def run_document(entry: dict[str, Any], path: str = "") -> CaseResult:
    """Return the result of the case in `entry`; an invalid case has not passed."""
    name = str(entry.get("id", path))
    try:
        return run_case(parse_case(entry, path, keep_lost_jobs=True))
    except InvalidError as error:
        return CaseResult(name, passed=False, why=f"refused: {error}")
    except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
        return CaseResult(name, passed=False, why=f"broke: {type(error).__name__}: {error}")


def run_case(case: Case) -> CaseResult:
    """Return whether the scheduler meets the expectations of the case."""
    why = next(CaseRun(case).problems(), None)
    return CaseResult(case.id, passed=why is None, why=why or "")


class CaseRun:
    """The rounds of one case."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._registry = built_in_plugins()
        self._errors: dict[str, str] = {}

    def problems(self) -> Iterator[str]:
        """Yield every difference from the expectations, round by round."""
        if not self._case.integration:
            session = yield from self._round(self._case.cluster, "")
            yield from mismatches(self._case, session, self._errors)
            return
        cluster = self._case.cluster
        for number in range(1, self._case.rounds_until_match + 1):
            session = yield from self._round(cluster, f"round {number}: ")
            cluster = settle(session, self._case.deleted_jobs)
        session = open_session(cluster, self._case.config, registry=self._registry)
        yield from mismatches(self._case, session, self._errors)
        for number in range(1, self._case.rounds_after_match + 1):
            place = f"round {number} after match: "
            session = yield from self._round(cluster, place)
            cluster = settle(session, self._case.deleted_jobs)
            for problem in mismatches(self._case, session, self._errors):
                yield place + problem

    def _round(self, cluster: Cluster, place: str) -> Generator[str, None, Session]:
        log = _FailingBinder() if self._case.bind_always_fails else DecisionLog()
        session = run_session(cluster, self._case.config, registry=self._registry, sink=log)
        self._errors = {
            name: "".join(refusal.render() for refusal in reasons)
            for name, reasons in session.unschedulable_jobs.items()
        }
        for problem in [*self._over_limits(log.decisions), *unexplained(session, log.decisions)]:
            yield place + problem
        return session

    def _over_limits(self, decisions: list[Decision]) -> Iterator[str]:
        limits = self._case.limits
        for kind, most in (
            (Bind, limits.binds),
            (Evict, limits.evictions),
            (Nominate, limits.pipelines),
        ):
            count = sum(isinstance(decision, kind) for decision in decisions)
            if count > most:
                yield f"{count} {kind.__name__} decisions, at most {most} allowed"
