"""One job: how far it has come, and what an interruption costs it."""

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from navarch.core.ids import NodeId
from navarch.sim.figures.goodput import JobRecord
from navarch.sim.scenario.work import JobConfig


class JobState(StrEnum):
    """Where a job stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, kw_only=True)
class Job:
    """Tasks that run together. Work counts once it is saved, or once the job is done."""

    name: str
    config: JobConfig
    submitted: datetime
    state: JobState = JobState.WAITING
    nodes: dict[str, NodeId] = field(default_factory=dict)
    """Where each task runs."""
    since: datetime | None = None
    """When it began to wait or to run."""
    finished: datetime | None = None
    kept_s: float = 0.0
    lost_s: float = 0.0
    waited_s: float = 0.0
    overhead_s: float = 0.0
    starts: int = 0
    interruptions: int = 0
    attempt: int = 0

    @property
    def tasks(self) -> list[str]:
        """The names of its tasks."""
        return [f"{self.name}/{number}" for number in range(self.config.tasks)]

    @property
    def gpus(self) -> int:
        """Of all its tasks together."""
        return self.config.tasks * self.config.gpus

    def run_s(self) -> float:
        """Return how long it runs from a start to its end, if nothing happens."""
        left = self.config.duration.total_seconds() - self.kept_s
        every = self._every_s
        saves = max(math.ceil(left / every) - 1, 0) if every else 0
        takes = self.config.checkpoint_takes.total_seconds()
        return self.config.restart_takes.total_seconds() + left + saves * takes

    def progress(self, ran_s: float) -> tuple[float, float]:
        """Return the work done since a start, and the part of it that is saved."""
        left = self.config.duration.total_seconds() - self.kept_s
        worked = max(ran_s - self.config.restart_takes.total_seconds(), 0.0)
        every = self._every_s
        if not every:
            return min(worked, left), 0.0
        cycle = every + self.config.checkpoint_takes.total_seconds()
        whole = math.floor(worked / cycle)
        done = min(whole * every + min(worked - whole * cycle, every), left)
        return done, min(whole * every, left)

    def saved_at(self, now: datetime) -> datetime | None:
        """Return when a job that runs last saved its work, in this run."""
        assert self.since is not None, self.name
        done, saved = self.progress((now - self.since).total_seconds())
        return now - timedelta(seconds=done - saved) if saved else None

    def start(self, now: datetime) -> None:
        """Begin to run."""
        if self.since is not None:
            self.waited_s += (now - self.since).total_seconds()
        self.state, self.since = JobState.RUNNING, now
        self.starts += 1
        self.attempt += 1

    def stop(self, now: datetime, *, saved: bool) -> None:
        """Be interrupted and wait again; `saved` if there was time for a last checkpoint."""
        assert self.since is not None, self.name
        ran_s = (now - self.since).total_seconds()
        done, kept = self.progress(ran_s)
        if saved and self._every_s:
            kept = done
        self.kept_s += kept
        self.lost_s += done - kept
        self.overhead_s += ran_s - done
        self.interruptions += 1
        self.attempt += 1
        self.nodes.clear()
        self.state, self.since = JobState.WAITING, now

    def finish(self, now: datetime) -> None:
        """Be done."""
        assert self.since is not None, self.name
        ran_s = (now - self.since).total_seconds()
        left = self.config.duration.total_seconds() - self.kept_s
        self.overhead_s += ran_s - left
        self.kept_s += left
        self.nodes.clear()
        self.state, self.since, self.finished = JobState.FINISHED, now, now

    def record(self, now: datetime) -> JobRecord:
        """Return how it stands."""
        kept, waited, overhead = self.kept_s, self.waited_s, self.overhead_s
        if self.since is not None and self.state is JobState.WAITING:
            waited += (now - self.since).total_seconds()
        elif self.since is not None and self.state is JobState.RUNNING:
            ran_s = (now - self.since).total_seconds()
            done, _ = self.progress(ran_s)
            kept, overhead = kept + done, overhead + ran_s - done
        return JobRecord(
            name=self.name,
            queue=self.config.queue,
            gpus=self.gpus,
            submitted=self.submitted,
            finished=self.finished,
            kept_s=round(kept, 6),
            lost_s=round(self.lost_s, 6),
            waited_s=round(waited, 6),
            overhead_s=round(overhead, 6),
            starts=self.starts,
            interruptions=self.interruptions,
        )

    @property
    def _every_s(self) -> float:
        every = self.config.checkpoint_every
        return every.total_seconds() if every is not None else 0.0
