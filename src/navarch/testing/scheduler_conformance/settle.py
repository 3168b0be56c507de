"""The changes between two rounds: evicted tasks stop, bound tasks run."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import Cluster, JobSpec, ResourceClaim, TaskSpec
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.status import ALLOCATED_MASK, TaskStatus

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
