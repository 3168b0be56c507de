"""The progress of one job, and what an interruption costs it."""

import math
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.ids import JobName, NodeId
from navarch.sim.figures.figures import JobRecord
from navarch.sim.scenario.kinds import JobConfig


@dataclass(slots=True, kw_only=True)
class JobProgress:
    """The work of one job. Work counts once it is saved, or once the job is done."""

    name: JobName
    config: JobConfig
    submitted: datetime
    running: bool = False
    nodes: tuple[NodeId, ...] = ()
    """The node of each task, while it runs."""
    placement: tuple[datetime, int] | None = None
    """The placement under which it runs, or ran last."""
    since: datetime = field(init=False)
    """When it began to wait or to run."""
    pace: float = 1.0
    """Its speed as a share of the nominal one: that of its slowest GPU."""
    paces: int = 0
    """How often the pace has changed."""
    finished: datetime | None = None
    kept_s: float = 0.0
    lost_s: float = 0.0
    waited_s: float = 0.0
    overhead_s: float = 0.0
    slowed_s: float = 0.0
    starts: int = 0
    interruptions: int = 0
    attempt: int = 0
    _way_s: float = 0.0
    """Its progress in this run when its pace last changed, as time at full pace."""
    _paced_at: datetime | None = None
    _restart_s: float = field(init=False)
    _every_s: float = field(init=False)
    """The work between two checkpoints; 0 without checkpoints."""
    _takes_s: float = field(init=False)
    """The time that a checkpoint takes."""

    def __post_init__(self) -> None:
        self.since = self.submitted
        self._restart_s = self.config.restart_takes.total_seconds()
        every = self.config.checkpoint_every
        self._every_s = every.total_seconds() if every is not None else 0.0
        self._takes_s = self.config.checkpoint_takes.total_seconds()

    @property
    def _left_s(self) -> float:
        """The work that was left when it was last started."""
        return self.config.duration.total_seconds() - self.kept_s

    def run_s(self) -> float:
        """Return how long it runs from a start to its end at full pace, if nothing happens."""
        left, every = self._left_s, self._every_s
        saves = max(math.ceil(left / every) - 1, 0) if every else 0
        return self._restart_s + left + saves * self._takes_s

    def left_s(self, now: datetime) -> float:
        """Return how long it still runs at its present pace, if nothing happens."""
        whole, come = self.run_s(), self._way(now)
        return max(self._at_pace(whole, 1.0, self.pace) - self._at_pace(come, 1.0, self.pace), 0.0)

    def progress(self, way_s: float) -> tuple[float, float]:
        """Return the work done in so long at full pace, and the part of it that is saved."""
        left, every = self._left_s, self._every_s
        worked = max(way_s - self._restart_s, 0.0)
        if not every:
            return min(worked, left), 0.0
        cycle = every + self._takes_s
        whole = math.floor(worked / cycle)
        done = min(whole * every + min(worked - whole * cycle, every), left)
        return done, min(whole * every, left)

    def next_save(self, now: datetime) -> int:
        """Return the number of the next checkpoint of this run, counted from one."""
        worked = max(self._way(now) - self._restart_s, 0.0)
        cycle = self._every_s + self._takes_s
        return math.floor((worked + 1e-6) / cycle) + 1 if self._every_s else 1

    def save_in_s(self, number: int, now: datetime) -> float | None:
        """Return the time until a checkpoint of this run is complete; None if the work ends first.

        The pace is taken as it is now.
        """
        if not self._every_s or number * self._every_s >= self._left_s:
            return None
        saved_at = self._restart_s + number * (self._every_s + self._takes_s)
        come = self._at_pace(self._way(now), 1.0, self.pace)
        return max(self._at_pace(saved_at, 1.0, self.pace) - come, 0.0)

    def start(self, now: datetime, nodes: tuple[NodeId, ...] = (), pace: float = 1.0) -> None:
        """Start the job."""
        self.waited_s += (now - self.since).total_seconds()
        self.running, self.since, self.nodes = True, now, nodes
        self.pace, self._way_s, self._paced_at = pace, 0.0, now
        self.starts += 1
        self.attempt += 1

    def go_on_at(self, pace: float, now: datetime) -> None:
        """Change the pace from now on."""
        self._way_s, self._paced_at = self._way(now), now
        self.pace = pace
        self.paces += 1

    def stop(self, now: datetime, *, saved: bool) -> None:
        """Interrupt the job, which is queued again; `saved` if it made a last checkpoint."""
        way_s = self._way(now)
        done, kept = self.progress(way_s)
        if saved and self._every_s:
            # The work paused while the last checkpoint was written.
            done = max(self.progress(way_s - self._takes_s)[0], kept)
            kept = done
        self.kept_s += kept
        self.lost_s += done - kept
        self.overhead_s += way_s - done
        self.slowed_s += (now - self.since).total_seconds() - way_s
        self.interruptions += 1
        self.attempt += 1
        self.nodes, self.running, self.since = (), False, now

    def finish(self, now: datetime) -> None:
        """Complete the job."""
        way_s = self._way(now)
        left = self._left_s
        self.overhead_s += way_s - left
        self.slowed_s += (now - self.since).total_seconds() - way_s
        self.kept_s += left
        self.nodes, self.running, self.since, self.finished = (), False, now, now

    def record(self, now: datetime) -> JobRecord:
        """Return the status of the job."""
        kept, waited = self.kept_s, self.waited_s
        overhead, slowed = self.overhead_s, self.slowed_s
        if not self.running and self.finished is None:
            waited += (now - self.since).total_seconds()
        elif self.running:
            way_s = self._way(now)
            done, _ = self.progress(way_s)
            kept, overhead = kept + done, overhead + way_s - done
            slowed += (now - self.since).total_seconds() - way_s
        return JobRecord(
            name=self.name,
            queue=self.config.queue,
            gpus=self.config.tasks * self.config.gpus,
            submitted=self.submitted,
            finished=self.finished,
            kept_s=round(kept, 6),
            lost_s=round(self.lost_s, 6),
            waited_s=round(waited, 6),
            overhead_s=round(overhead, 6),
            slowed_s=round(slowed, 6),
            starts=self.starts,
            interruptions=self.interruptions,
            restart_s=self._restart_s,
            checkpoint_every_s=self._every_s,
            checkpoint_takes_s=self._takes_s,
        )

    def _way(self, now: datetime) -> float:
        """Return the progress of this run, as time at full pace."""
        assert self._paced_at is not None, self.name
        passed_s = (now - self._paced_at).total_seconds()
        if self.pace == 1.0:
            return self._way_s + passed_s
        return self._at_pace(self._at_pace(self._way_s, 1.0, self.pace) + passed_s, self.pace, 1.0)

    def _at_pace(self, ran_s: float, pace: float, other: float) -> float:
        """Return when it would be at `other` pace where it is after `ran_s` at `pace`.

        Only work takes longer on slow GPUs: a start and a checkpoint wait for disks and networks.
        """
        if pace == other:
            return ran_s
        begin = min(ran_s, self._restart_s)
        every, takes = self._every_s, self._takes_s
        if not every:
            return begin + (ran_s - begin) * pace / other
        span, other_span = every / pace, every / other
        whole, within = divmod(ran_s - begin, span + takes)
        worked, saving = min(within, span), max(within - span, 0.0)
        return begin + whole * (other_span + takes) + worked * pace / other + saving
