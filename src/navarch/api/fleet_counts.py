"""Counts of a fleet as metrics: nodes, pools, what is held back, incidents, jobs, and spending."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import product
from typing import TypeVar

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from navarch.core.alert import AlertCause, Severity
from navarch.core.budget import month_start
from navarch.core.disruption import DeferredBy
from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import PoolName
from navarch.core.incident import Incident, IncidentKind, IncidentState
from navarch.core.job import DEFAULT_QUEUE, Job, JobState
from navarch.core.node import Node, NodeStatus, Phase, node_status
from navarch.core.pool import Pool

UNKNOWN = "unknown"

NO_POOL = "-"
"""The label of nodes that belong to no pool; no pool can have this name."""

DELETED = "-deleted"
"""The label of all pools that are deleted, once their machines are gone; no pool's name either."""

LAUNCHES = "launches"
HELD = "held"
UNREACHABLE = "unreachable"

Labels = tuple[str, ...]
T = TypeVar("T")


class FleetCounts:
    """Counts of one fleet, added up slice by slice."""

    def __init__(
        self, fleet: Fleet, now: datetime, *, spent: Mapping[PoolName, Decimal] | None = None
    ) -> None:
        """`spent` is what machines without nodes have cost each pool this month, if known."""
        self._now = now
        self._month_start = month_start(now)
        self._statuses = Tally[Labels]({(x,): 0 for x in (*NodeStatus, UNKNOWN)})
        self._gpus: Tally[Labels] = Tally()
        self._health: Tally[Health] = Tally()
        self._pools = [
            pool for pool in fleet.pools.values() if not pool.deleted or fleet.present_in(pool.name)
        ]
        names = [pool.name for pool in self._pools]
        present = [phase for phase in Phase if phase is not Phase.GONE]
        self._phases = _zeros(names, present)
        self._pool_health = _zeros(names, Health)
        self._serving = _zeros(names)
        self._held = _zeros(names, DeferredBy)
        self._pending_s: dict[Labels, float] = dict.fromkeys(_zeros(names), 0.0)
        self._spend: dict[Labels, float] = {
            (pool.name, offering.provider): 0.0
            for pool in self._pools
            for offering in pool.offerings
        }
        self._month: dict[Labels, float] | None = None
        if spent is not None:
            self._month = dict.fromkeys(_zeros(names), 0.0)
            for name, amount in spent.items():
                self._add_spent(name if (name,) in self._serving else DELETED, float(amount))
        self._incidents = _zeros(
            IncidentKind, [x for x in IncidentState if x is not IncidentState.RESOLVED]
        )
        self._alerts = _zeros(AlertCause, Severity)
        self._messages: Tally[Labels] = Tally()
        self._channel_failures: Tally[Labels] = Tally()
        self._add_alerts(fleet)
        self._jobs = _zeros([DEFAULT_QUEUE], [JobState.WAITING, JobState.PLACED])
        self._waits_s: dict[Labels, float] = {(DEFAULT_QUEUE,): 0.0}

    def _add_alerts(self, fleet: Fleet) -> None:
        for alert in fleet.alerts.values():
            self._alerts[alert.cause, alert.severity] += alert.firing
        for group in fleet.alert_groups.values():
            channel = (group.channel,)
            self._messages[channel] += group.pending is not None
            failures = max(self._channel_failures[channel], group.attempts)
            self._channel_failures[channel] = failures

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Count nodes that are not gone."""
        for node in nodes:
            placed = node.place.gpus if node.place else 0
            self._statuses[node_status(node) or UNKNOWN,] += 1
            self._gpus[node.provider or UNKNOWN,] += placed if node.gpus is None else node.gpus
            self._health[node.health] += 1
            pool = node.pool or NO_POOL
            self._phases[pool, node.phase] += 1
            self._pool_health[pool, node.health] += 1
            self._serving[pool,] += node.serving
            if node.held is not None and not node.held.released:
                self._held[pool, node.held.by] += 1
            if node.counts and node.registered_at is None:
                waited_s = (self._now - node.created_at).total_seconds()
                self._pending_s[pool,] = max(self._pending_s.get((pool,), 0.0), waited_s)
            launch = node.launch
            if launch is not None and launch.launched_at is not None and launch.ended_at is None:
                payer = (pool, launch.offering.provider)
                per_hour = float(launch.price_per_hour)
                self._spend[payer] = self._spend.get(payer, 0.0) + per_hour
                ran = self._now - max(launch.launched_at, self._month_start)
                self._add_spent(pool, max(ran.total_seconds(), 0.0) / 3600 * per_hour)

    def _add_spent(self, pool: str, amount: float) -> None:
        if self._month is not None:
            self._month[pool,] = self._month.get((pool,), 0.0) + amount

    def add_incidents(self, incidents: Iterable[Incident]) -> None:
        """Count the open incidents."""
        for incident in incidents:
            if incident.is_open:
                self._incidents[incident.kind, incident.state] += 1

    def add_jobs(self, jobs: Iterable[Job]) -> None:
        """Count the jobs that are queued or run."""
        for job in jobs:
            if job.over:
                continue
            self._jobs[job.queue, job.state] += 1
            waited_s = 0.0
            if job.state is JobState.WAITING:
                waited_s = (self._now - job.since).total_seconds()
            self._waits_s[job.queue,] = max(self._waits_s.get((job.queue,), 0.0), waited_s)

    def metrics(self) -> Iterator[Metric]:
        """Yield the counts."""
        yield _family("navarch_nodes_total", "Nodes by status.", ("status",), self._statuses)
        yield _family("navarch_gpus_total", "GPUs by provider.", ("provider",), self._gpus)
        for health in (Health.HEALTHY, Health.UNHEALTHY):
            yield GaugeMetricFamily(
                f"navarch_nodes_{health}", f"Nodes that are {health}.", value=self._health[health]
            )
        yield from self._pool_metrics()
        yield _family(
            "navarch_incidents_open", "Open incidents.", ("kind", "state"), self._incidents
        )
        yield _family("navarch_alerts", "Alerts that fire.", ("cause", "severity"), self._alerts)
        yield _family(
            "navarch_alert_messages_waiting",
            "Messages that a channel has not received.",
            ("channel",),
            self._messages,
        )
        yield _family(
            "navarch_alert_channel_failures",
            "Failed attempts in a row to send a message to a channel.",
            ("channel",),
            self._channel_failures,
        )
        yield _family("navarch_jobs", "Jobs that are not over.", ("queue", "state"), self._jobs)
        yield _family(
            "navarch_job_longest_wait_seconds",
            "How long the job that waits longest has waited.",
            ("queue",),
            self._waits_s,
        )

    def _pool_metrics(self) -> Iterator[Metric]:
        pools = self._pools
        for name, description, values in (
            ("navarch_pool_size_nodes", "Nodes that a pool should have.", [x.size for x in pools]),
            (
                "navarch_pool_target_nodes",
                "The size of a pool and its spares.",
                [x.target for x in pools],
            ),
            ("navarch_pool_min_nodes", "The least nodes of a pool.", [x.nodes_min for x in pools]),
            ("navarch_pool_max_nodes", "The most nodes of a pool.", [x.nodes_max for x in pools]),
        ):
            names = [(str(pool.name),) for pool in pools]
            sizes: dict[Labels, int] = dict(zip(names, values, strict=True))
            yield _family(name, description, ("pool",), sizes)
        for name, description, labels, counts in (
            ("navarch_pool_nodes", "Nodes by phase.", ("pool", "phase"), self._phases),
            (
                "navarch_pool_health_nodes",
                "Nodes by health.",
                ("pool", "health"),
                self._pool_health,
            ),
            ("navarch_pool_serving_nodes", "Nodes that take work.", ("pool",), self._serving),
            (
                "navarch_pool_held_nodes",
                "Nodes with a deferred action, by the limit that defers it.",
                ("pool", "by"),
                self._held,
            ),
        ):
            yield _family(name, description, labels, counts)
        yield _family(
            "navarch_pool_paused",
            "Whether actions on a pool are paused: 1 if so.",
            ("pool", "cause"),
            {key: value for pool in pools for key, value in _pauses(pool)},
        )
        yield _family(
            "navarch_pool_longest_pending_seconds",
            "How long the node that has waited longest for its machine and agent has waited.",
            ("pool",),
            self._pending_s,
        )
        yield _family(
            "navarch_pool_spend_per_hour",
            "The hourly price of the running machines, in the currency of the prices.",
            ("pool", "provider"),
            self._spend,
        )
        if self._month is not None:
            yield _family(
                "navarch_pool_spend_month",
                "What machines have cost since the beginning of the calendar month, in UTC.",
                ("pool",),
                self._month,
            )


def _pauses(pool: Pool) -> Iterator[tuple[Labels, int]]:
    yield (pool.name, LAUNCHES), pool.braked is not None
    yield (pool.name, HELD), pool.held is not None
    yield (pool.name, UNREACHABLE), pool.unreachable


def _zeros(*values: Iterable[str]) -> Tally[Labels]:
    """Return a zero for each combination: a series that begins at one hides its first change."""
    return Tally[Labels](dict.fromkeys(product(*values), 0))


def _family(
    name: str, description: str, labels: Sequence[str], values: "dict[Labels, T]"
) -> Metric:
    family = GaugeMetricFamily(name, description, labels=labels)
    for each, value in sorted(values.items()):
        family.add_metric(each, value)  # type: ignore[arg-type]
    return family
