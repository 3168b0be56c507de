"""Counters of what is committed, from the start of the process.

They count commands, XIDs, launches, boots, incidents and jobs. A committed change counts once,
whatever is repeated before it.
"""

from collections.abc import Iterable

from navarch.core.event import Event
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import IncidentKind
from navarch.core.job import DEFAULT_QUEUE, Job, JobState
from navarch.core.launch import Launch, Refusal
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.recovery import CommandKind
from navarch.health.policy.history import FINDING
from navarch.health.xid.catalogue import sxids, xids
from navarch.ports.metrics import Metrics
from navarch.ports.store import Committed

OTHER = "other"
"""The label of codes that are in no catalogue: agents could otherwise create any number of them.
The same for pools and queues beyond the limit."""

NAMES_MAX = 200
"""The most pools, and the most queues, with series of their own: a program that creates a pool for
each of its runs must not fill the memory of this process and of Prometheus."""

BOUGHT = "bought"
WITHDRAWN = "withdrawn"
UNSURE = "unsure"
LAUNCH_OUTCOMES = (BOUGHT, *Refusal, WITHDRAWN, UNSURE)

REGISTERED = "registered"
GIVEN_UP = "given_up"

CAPACITY_BUCKETS_S = (30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 21600, 86400)
"""From a quick boot to a day in which a kind of machine is sold out."""
QUEUE_BUCKETS_S = (1, 5, 15, 60, 300, 900, 1800, 3600, 14400, 43200, 86400)

TIMES_MAX = 1000
"""The most errors that one finding counts for, whatever the agent reports."""

XID = "xid"


class CommitMetrics:
    """Counts what is committed to a store."""

    def __init__(self, metrics: Metrics, fleet: Fleet) -> None:
        """`fleet` is the state before the first commit that is counted."""
        faults = FaultMetrics(metrics)
        machines = MachineMetrics(metrics, fleet)
        jobs = JobMetrics(metrics, fleet)
        self._parts = (faults, machines, jobs)

    def on_commit(self, committed: Committed) -> None:
        """Count what a change adds."""
        for part in self._parts:
            part.on_commit(committed)


class FaultMetrics:
    """Counts commands, XIDs and incidents. Repeated reports are not in the journal."""

    def __init__(self, metrics: Metrics) -> None:
        self.commands = metrics.counter(
            "navarch_commands_issued_total",
            "Commands issued to agents since the server started.",
            labels=("kind",),
        )
        self.xids = metrics.counter(
            "navarch_xid_errors_total",
            "XIDs and SXids in the journal since the server started.",
            labels=("code",),
        )
        self.incidents = metrics.counter(
            "navarch_incidents_opened_total",
            "Incidents opened since the server started.",
            labels=("kind",),
        )
        # A series that begins at one hides its first increase from Prometheus.
        for origin in IncidentKind:
            self.incidents.add(0, kind=origin)
        for kind in CommandKind:
            if kind is not CommandKind.PROBE:
                self.commands.add(0, kind=kind)
        for code in (*xids(), OTHER):
            self.xids.add(0, code=str(code))

    def on_commit(self, committed: Committed) -> None:
        """Count what a change adds."""
        known = committed.before.commands
        for command in committed.change.commands:
            if command.id not in known:
                self.commands.add(kind=command.kind)
        for event in committed.change.events:
            if is_xid(event):
                self.xids.add(_times(event), code=_code(event))
        for incident in committed.change.incidents:
            if incident.id not in committed.before.incidents:
                self.incidents.add(kind=incident.kind)


def is_xid(event: Event) -> bool:
    """Return whether an event is the finding of an XID or an SXid."""
    facts = event.facts
    return event.kind == FINDING and (
        facts.get("check", "").partition("/")[0] == XID or facts.get("fact.event_type") == XID
    )


def _code(event: Event) -> str:
    code = event.facts.get("fact.code", "")
    # Numbers of more digits are in no catalogue.
    number = int(code) if code.isascii() and code.isdecimal() and len(code) < 6 else 0
    return str(number) if number in xids() or number in sxids() else OTHER


def _times(event: Event) -> int:
    """Return how many errors a finding counts for: a storm of one code is one finding."""
    times = event.facts.get("fact.times", "")
    if not (times.isascii() and times.isdecimal() and len(times) < 10):
        return 1
    return max(1, min(int(times), TIMES_MAX))


class _Names:
    """The names that have series of their own, up to a limit."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label for `name`."""
        if name in self._known:
            return name
        if len(self._known) >= NAMES_MAX:
            return OTHER
        self._known.add(name)
        return name


class MachineMetrics:
    """Counts launches, boots, replacements and terminations, and measures the time to capacity."""

    def __init__(self, metrics: Metrics, fleet: Fleet) -> None:
        self._names = _Names()
        self.launches = metrics.counter(
            "navarch_launches_total",
            "Launches by outcome: bought, the class of the refusal, withdrawn, or unsure.",
            labels=("pool", "provider", "outcome"),
        )
        self.boots = metrics.counter(
            "navarch_boots_total",
            "Bought machines of which the agent registered, or that were given up before.",
            labels=("pool", "provider", "outcome"),
        )
        self.capacity = metrics.histogram(
            "navarch_time_to_capacity_seconds",
            "Time from the decision to have another node to the registration of its agent.",
            labels=("pool",),
            buckets=CAPACITY_BUCKETS_S,
        )
        self.replacements = metrics.counter(
            "navarch_replacements_total", "Nodes requested to replace another.", labels=("pool",)
        )
        self.terminations = metrics.counter(
            "navarch_terminations_total", "Nodes with a terminated machine.", labels=("pool",)
        )
        self._begin(fleet.pools.values())

    def _begin(self, pools: Iterable[Pool]) -> None:
        """Begin the series of these pools at zero."""
        for pool in pools:
            if pool.deleted:
                continue
            label = self._names.label(pool.name)
            for provider in {offering.provider for offering in pool.offerings}:
                for outcome in LAUNCH_OUTCOMES:
                    self.launches.add(0, pool=label, provider=provider, outcome=outcome)
                for outcome in (REGISTERED, GIVEN_UP):
                    self.boots.add(0, pool=label, provider=provider, outcome=outcome)
            self.capacity.begin(pool=label)
            self.replacements.add(0, pool=label)
            self.terminations.add(0, pool=label)

    def on_commit(self, committed: Committed) -> None:
        """Count what happened to machines."""
        self._begin(committed.reshaped)
        for launch in committed.change.launches:
            if launch.refused is not None:
                self._count_launch(launch, launch.refusal or WITHDRAWN)
        for before, node in committed.moved:
            if node.pool is not None:
                self._note_move(before, node, node.pool)
        for event in committed.change.events:
            if event.kind == "launch.unsure":
                self._note_unsure(event, committed.after)

    def _note_move(self, before: Node | None, node: Node, name: PoolName) -> None:
        pool = self._names.label(name)
        if before is None and node.replaces is not None:
            self.replacements.add(pool=pool)
        if node.phase is Phase.TERMINATING and before and before.phase is not Phase.TERMINATING:
            self.terminations.add(pool=pool)
        launch = node.launch
        if launch is None:
            return
        had = before.instance if before else None
        if launch.instance is not None and had is None:
            self._count_launch(launch, BOUGHT)
        provider = launch.offering.provider
        if node.registered_at is not None and (before is None or before.registered_at is None):
            self.boots.add(pool=pool, provider=provider, outcome=REGISTERED)
            waited = node.registered_at - node.created_at
            self.capacity.observe(waited.total_seconds(), pool=pool)
        if _given_up(node) and not (before and _given_up(before)):
            self.boots.add(pool=pool, provider=provider, outcome=GIVEN_UP)

    def _note_unsure(self, event: Event, fleet: Fleet) -> None:
        names = {NodeId(subject.removeprefix("node/")) for subject in event.because}
        for name in names:
            node = fleet.nodes.get(name)
            if node is not None and node.launch is not None:
                self._count_launch(node.launch, UNSURE)

    def _count_launch(self, launch: Launch, outcome: str) -> None:
        pool, provider = self._names.label(launch.pool), launch.offering.provider
        self.launches.add(pool=pool, provider=provider, outcome=outcome)


def _given_up(node: Node) -> bool:
    return node.retiring is not None and node.retiring.failed_at is not None


class JobMetrics:
    """Measures how long jobs are queued, and counts their interruptions."""

    def __init__(self, metrics: Metrics, fleet: Fleet) -> None:
        self._names = _Names()
        self.waits = metrics.histogram(
            "navarch_job_queue_wait_seconds",
            "Time from the submission of a job, or the loss of its GPUs, to its placement.",
            labels=("queue",),
            buckets=QUEUE_BUCKETS_S,
        )
        self.interruptions = metrics.counter(
            "navarch_job_interruptions_total",
            "Losses of the GPUs of jobs before their end.",
            labels=("queue",),
        )
        for queue in dict.fromkeys([DEFAULT_QUEUE, *(job.queue for job in fleet.jobs.values())]):
            self._begin(queue)

    def on_commit(self, committed: Committed) -> None:
        """Measure the jobs that a change moves."""
        for job in committed.change.jobs:
            before = committed.before.jobs.get(job.name)
            if before is None:
                self._begin(job.queue)
            else:
                self._note_move(before, job)

    def _begin(self, queue: str) -> None:
        label = self._names.label(queue)
        self.interruptions.add(0, queue=label)
        self.waits.begin(queue=label)

    def _note_move(self, before: Job, job: Job) -> None:
        queue = self._names.label(job.queue)
        if before.state is JobState.WAITING and job.state is JobState.PLACED:
            self.waits.observe((job.since - before.since).total_seconds(), queue=queue)
        if job.interruptions > before.interruptions:
            self.interruptions.add(job.interruptions - before.interruptions, queue=queue)
