"""Jobs, as a table and one by one."""

from collections.abc import Sequence

from navarch.cli.render.table import (
    Canvas,
    Cell,
    Column,
    age,
    duration,
    printable,
    render_table,
    timestamp,
)
from navarch.core.job import Job, JobState

_COLORS = {
    JobState.WAITING: "yellow",
    JobState.PLACED: "green",
    JobState.CANCELLED: "bright_black",
    JobState.FINISHED: "bright_black",
}


def render_jobs(jobs: Sequence[Job], canvas: Canvas) -> str:
    """Return the table that `navarch job list` prints."""
    if not jobs:
        return "No jobs found"
    columns: list[Column[Job]] = [
        Column("Job", lambda job: job.name),
        Column("State", lambda job: Cell(job.state.value, _COLORS[job.state]), rank=1),
        Column("GPUs", _gpus, rank=2),
        Column("Queue", lambda job: job.queue, rank=4),
        Column("Since", lambda job: age(job.since, canvas.now), rank=3),
        Column("Reason", lambda job: job.reason, width_min=24),
    ]
    return render_table(columns, jobs, canvas)


def render_job(job: Job, canvas: Canvas) -> str:
    """Return what `navarch job get` prints."""
    facts = {
        "Job": job.name,
        "State": f"{job.state.value}, {age(job.since, canvas.now)}: {printable(job.reason)}",
        "Requests": _gpus(job) + (f" of {job.gpu_type}" if job.gpu_type else ""),
        "Pool": job.pool or "any",
        "Queue": f"{job.queue}, priority {job.priority}",
        "Preemptible": "yes" if job.preemptible else "no",
        "Submitted": f"{timestamp(job.submitted_at)} UTC",
        "Expected time": duration(job.runtime) if job.runtime else "",
        "Checkpoint": age(job.checkpointed_at, canvas.now) if job.checkpointed_at else "",
        "Interruptions": str(job.interruptions) if job.interruptions else "",
    }
    lines = [f"{name + ':':17}{value}" for name, value in facts.items() if value]
    tasks = zip(job.task_names, job.nodes, strict=False) if job.nodes else ()
    return "\n".join([*lines, *(f"  {task} on {node}" for task, node in tasks)])


def _gpus(job: Job) -> str:
    return f"{job.tasks} x {job.gpus}" if job.tasks > 1 else str(job.gpus)
