"""What deserves an alert: one function per source, all in the list `SOURCES`.

A source returns the conditions that hold now. When alerts begin and end is decided elsewhere, so a
source needs no memory: while it returns a condition, there is one alert.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.alert import AlertCause, AlertGroup, Severity
from navarch.core.disruption import DeferredBy
from navarch.core.event import Subject, about
from navarch.core.fleet import Fleet
from navarch.core.health import HEARTBEAT, POLICY, Health
from navarch.core.ids import AlertId, PoolName
from navarch.core.incident import Incident, IncidentKind
from navarch.core.launch import Launch, Refusal
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.recovery import ALERT_ONLY, RecoveryState
from navarch.fleet.money.budgets import Level, Spending
from navarch.ports.api import FailingController

SILENT_FOR = timedelta(minutes=2)
"""How long a node must be silent before it is an alert of its own. An outage that makes many nodes
silent is recognised earlier, and is one alert."""

FAILING_FOR = timedelta(minutes=5)
"""How long a controller must fail. Most errors pass with the next attempt."""

TERMINATES_WITHIN = timedelta(minutes=30)
"""How long a provider may take to end a machine. Most need a minute or two."""

ATTEMPTS_MIN = 3
"""Failed attempts to deliver a message before the channel is an alert itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCondition:
    """A condition that holds now and deserves an alert."""

    cause: AlertCause
    subject: Subject
    severity: Severity
    summary: str
    remedy: str = ""
    pool: PoolName | None = None
    team: str = ""
    after: timedelta = timedelta(0)
    """How long it must last before the alert begins."""
    part_of: AlertId | None = None
    """The alert that explains this one, and is sent in its place."""
    group: str = ""
    """Alerts of one group are sent in one message; empty: those of the same cause and pool."""

    @property
    def id(self) -> AlertId:
        """The identity of its alert: one cause and one subject."""
        return alert_id(self.cause, self.subject)


def alert_id(cause: AlertCause, subject: Subject) -> AlertId:
    """Return the identity of the alert about `subject` with this cause."""
    return AlertId(f"{cause}@{subject.partition('/')[2]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertInputs:
    """Everything that sources read."""

    fleet: Fleet
    now: datetime
    spending: Sequence[Spending] = ()
    failing: Sequence[FailingController] = ()
    below_target_after: timedelta = timedelta(minutes=30)


Source = Callable[[AlertInputs], Iterable[AlertCondition]]


def find_conditions(inputs: AlertInputs) -> dict[AlertId, AlertCondition]:
    """Return the conditions that hold now; of two with the same identity, the more severe."""
    found: dict[AlertId, AlertCondition] = {}
    for source in SOURCES:
        for condition in source(inputs):
            known = found.get(condition.id)
            if known is None or condition.severity.rank > known.severity.rank:
                found[condition.id] = condition
    return found


def node_faults(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per unhealthy node, and per open incident of a node or a fabric."""
    fleet = inputs.fleet
    for node in fleet.nodes.values():
        # Most nodes have no condition.
        if node.conditions and not node.gone and _is_unhealthy(node):
            yield _node_fault(fleet, node)
    for incident in fleet.incidents.values():
        if incident.is_open and incident.kind is not IncidentKind.APPLICATION:
            yield _open_incident(fleet, incident)


def _is_unhealthy(node: Node) -> bool:
    return node.health is Health.UNHEALTHY or any(each.fatal for each in node.conditions)


def _node_fault(fleet: Fleet, node: Node) -> AlertCondition:
    faults = [x for x in node.conditions if x.health is Health.UNHEALTHY or x.fatal]
    silent = all(each.check == HEARTBEAT for each in faults)
    worst = next((x for x in faults if x.fatal), faults[0] if faults else node.conditions[0])
    pool = _pool_of(fleet, node.pool)
    needs_person = _why_a_person_must_act(fleet, node, pool)
    summary = f"{node.id}: {worst.reason or worst.check}"
    return AlertCondition(
        cause=AlertCause.NODE_FAULT,
        subject=about("node", node.id),
        severity=Severity.CRITICAL if needs_person else Severity.WARNING,
        summary=f"{summary}; {needs_person}" if needs_person else summary,
        remedy=f"navarch why {node.id}",
        pool=node.pool,
        team=pool.team if pool else "",
        after=SILENT_FOR if silent else timedelta(0),
        part_of=_explained_by(node, pool, silent=silent),
    )


def _why_a_person_must_act(fleet: Fleet, node: Node, pool: Pool | None) -> str:
    """Return why automation does not repair or replace `node`; empty if it does."""
    if node.retiring is not None or node.phase is Phase.TERMINATING:
        return ""
    recovery = fleet.recoveries.get(node.recovery) if node.recovery is not None else None
    if recovery is not None:
        is_ticket = recovery.state is RecoveryState.TICKET
        return "automation can do nothing more" if is_ticket else ""
    held = node.held
    if held is not None and not held.released:
        # A spent budget and a burst pass by themselves.
        passing = held.by in (DeferredBy.BUDGET, DeferredBy.BURST, DeferredBy.DRY_RUN)
        return "" if passing else f"automation holds back to {held.action} it: {held.because}"
    if pool is None:
        return "it is in no pool, so nothing replaces it"
    if pool.remediation.strategy == ALERT_ONLY or not pool.auto_replace:
        return f"pool {pool.name} leaves faults to operators"
    return ""


def _explained_by(node: Node, pool: Pool | None, *, silent: bool) -> AlertId | None:
    if pool is None or pool.deleted:
        return None
    subject = about("pool", pool.name)
    if pool.unreachable and silent:
        return alert_id(AlertCause.NODES_UNREACHABLE, subject)
    if pool.held is not None and node.held is not None and not pool.unreachable:
        return alert_id(AlertCause.AUTOMATION_PAUSED, subject)
    return None


def _open_incident(fleet: Fleet, incident: Incident) -> AlertCondition:
    pool = _pool_of(fleet, incident.pool)
    node = fleet.nodes.get(incident.node)
    silent = incident.check == HEARTBEAT
    return AlertCondition(
        cause=AlertCause.NODE_FAULT,
        subject=Subject(incident.place),
        severity=Severity.WARNING,
        summary=f"{incident.node}: {incident.title}",
        remedy=f"navarch incident get {incident.id}",
        pool=incident.pool,
        team=pool.team if pool else "",
        after=SILENT_FOR if silent else timedelta(0),
        part_of=None if node is None else _explained_by(node, pool, silent=silent),
    )


def unreachable_pools(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per pool in which many nodes stopped reporting at once."""
    for pool in inputs.fleet.pools.values():
        if pool.unreachable and not pool.deleted:
            nodes = inputs.fleet.in_pool(pool.name).values()
            silent = sum(not x.gone and _is_silent(x) for x in nodes)
            yield AlertCondition(
                cause=AlertCause.NODES_UNREACHABLE,
                subject=about("pool", pool.name),
                severity=Severity.CRITICAL,
                summary=f"{silent} nodes of pool {pool.name} do not report: {pool.held or ''}",
                remedy=f"navarch held list --pool {pool.name}",
                pool=pool.name,
                team=pool.team,
                # An outage of the network reaches several pools; it is one event.
                group=AlertCause.NODES_UNREACHABLE,
            )


def _is_silent(node: Node) -> bool:
    return any(each.check == HEARTBEAT for each in node.conditions)


def paused_pools(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per pool that does not buy machines, or does not act on its nodes."""
    for pool in inputs.fleet.pools.values():
        if pool.deleted:
            continue
        if pool.braked is not None:
            yield AlertCondition(
                cause=AlertCause.PURCHASES_PAUSED,
                subject=about("pool", pool.name),
                severity=Severity.CRITICAL,
                summary=f"pool {pool.name} buys no machines: {pool.braked}",
                remedy=f"navarch why pool/{pool.name}",
                pool=pool.name,
                team=pool.team,
            )
        if pool.held is not None and not pool.unreachable:
            yield AlertCondition(
                cause=AlertCause.AUTOMATION_PAUSED,
                subject=about("pool", pool.name),
                severity=Severity.CRITICAL,
                summary=f"automation acts on no node of pool {pool.name}: {pool.held}",
                remedy=f"navarch held list --pool {pool.name}",
                pool=pool.name,
                team=pool.team,
                # A rack holds nodes of several pools; its fault is one event.
                group=AlertCause.AUTOMATION_PAUSED,
            )


_NEED_PERSON = frozenset({Refusal.QUOTA, Refusal.REGION_QUOTA, Refusal.REJECTED})


def refused_launches(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per pool with launches that only an operator can make succeed."""
    refused: dict[PoolName, Launch] = {}
    for launch in _refused(inputs.fleet):
        if launch.refusal is Refusal.CREDENTIAL:
            yield _credentials(launch.offering.provider, launch.refused or "")
        elif launch.refusal in _NEED_PERSON:
            refused.setdefault(launch.pool, launch)
    for name, launch in refused.items():
        pool = inputs.fleet.pools[name]
        yield AlertCondition(
            cause=AlertCause.LAUNCHES_REFUSED,
            subject=about("pool", name),
            severity=Severity.WARNING,
            summary=f"pool {name} cannot launch machines: {launch.refused}",
            remedy=f"navarch why {launch.node}",
            pool=name,
            team=pool.team,
        )


def _refused(fleet: Fleet) -> Iterator[Launch]:
    """Yield the last refused launch of each node that waits for a machine."""
    for node in fleet.nodes.values():
        if node.refused is not None and node.phase is Phase.REQUESTED and node.retiring is None:
            yield node.refused


def _credentials(provider: str, error: str) -> AlertCondition:
    return AlertCondition(
        cause=AlertCause.PROVIDER_CREDENTIALS,
        subject=about("provider", provider),
        severity=Severity.CRITICAL,
        summary=f"provider {provider} rejects the credentials: {error}",
        remedy="correct the credentials of the provider, then restart or reload the server",
    )


def pools_below_target(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per pool with fewer nodes than its size, unless another explains it.

    A node that is unhealthy is there: it has an alert of its own.
    """
    fleet = inputs.fleet
    refused: dict[PoolName, Refusal | None] = defaultdict(lambda: None)
    for launch in _refused(fleet):
        refused[launch.pool] = launch.refusal
    explained = {Refusal.CREDENTIAL, *_NEED_PERSON}
    for pool in fleet.pools.values():
        if pool.braked is not None or pool.held is not None or refused[pool.name] in explained:
            continue
        nodes = fleet.in_pool(pool.name).values()
        present = sum(node.counts and node.registered_at is not None for node in nodes)
        if present < pool.size:
            short = f"pool {pool.name} has {present} of {pool.size} nodes"
            cause = refused[pool.name]
            yield AlertCondition(
                cause=AlertCause.POOL_BELOW_TARGET,
                subject=about("pool", pool.name),
                severity=Severity.WARNING,
                summary=f"{short}; last refusal: {cause}" if cause else short,
                remedy=f"navarch why pool/{pool.name}",
                pool=pool.name,
                team=pool.team,
                after=inputs.below_target_after,
            )


def stuck_terminations(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per machine that its provider does not end."""
    for node in inputs.fleet.nodes.values():
        if node.phase is Phase.TERMINATING and inputs.now >= node.since + TERMINATES_WITHIN:
            pool = _pool_of(inputs.fleet, node.pool)
            yield AlertCondition(
                cause=AlertCause.TERMINATION_STUCK,
                subject=about("node", node.id),
                severity=Severity.WARNING,
                summary=f"{node.id} is terminated since {node.since:%H:%M} UTC and still exists",
                remedy=f"navarch why {node.id}; end the machine at the provider",
                pool=node.pool,
                team=pool.team if pool else "",
            )


def budgets(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per budget that is nearly or wholly spent."""
    for each in inputs.spending:
        level = each.level(inputs.now)
        if level is not Level.FINE:
            spent = level is Level.SPENT
            # The figures change by the minute, so they are no part of the summary.
            state = "is spent" if spent else "is nearly spent, or forecast to be exceeded"
            then = each.budget.when_spent
            yield AlertCondition(
                cause=AlertCause.BUDGET_SPENT,
                subject=about("budget", str(each.budget)),
                severity=Severity.CRITICAL if spent else Severity.WARNING,
                summary=f"the monthly budget of {each.budget} {state}; then: {then}",
                remedy="navarch cost",
                pool=PoolName(each.budget.name) if each.budget.of == "pool" else None,
                team=each.budget.name if each.budget.of == "team" else "",
            )


def failed_policies(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per check with results that the health policy cannot judge."""
    nodes: dict[str, list[Node]] = defaultdict(list)
    for node in inputs.fleet.nodes.values():
        if node.conditions and not node.gone:
            checks = [x.check for x in node.conditions if x.check.startswith(POLICY)]
            for check in dict.fromkeys(each.split("/")[1] for each in checks):
                nodes[check].append(node)
    for check, found in nodes.items():
        yield AlertCondition(
            cause=AlertCause.POLICY_FAILED,
            subject=about("check", check),
            severity=Severity.WARNING,
            summary=f"the health policy cannot judge the check {check}, on {found[0].id} for one",
            remedy=f"navarch why {found[0].id}",
        )


def failing_controllers(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per controller, or extension, that fails again and again."""
    for each in inputs.failing:
        kind = each.kind.replace("_", " ")
        yield AlertCondition(
            cause=AlertCause.CONTROLLER_FAILING,
            subject=about(each.kind, each.name),
            severity=Severity.CRITICAL,
            summary=f"{kind} {each.name} fails: {each.error}",
            remedy="navarch status; the log of the server has the whole error",
            after=FAILING_FOR,
        )


def failing_channels(inputs: AlertInputs) -> Iterator[AlertCondition]:
    """Yield a condition per channel that does not accept alerts; other channels report it."""
    by_channel: dict[str, list[AlertGroup]] = defaultdict(list)
    for group in inputs.fleet.alert_groups.values():
        if group.pending is not None and group.attempts >= ATTEMPTS_MIN:
            by_channel[group.channel].append(group)
    for channel, groups in by_channel.items():
        yield AlertCondition(
            cause=AlertCause.ALERT_DELIVERY,
            subject=about("channel", channel),
            severity=Severity.CRITICAL,
            summary=f"channel {channel} does not accept alerts: {groups[0].error}",
            remedy=f"navarch alert test {channel}",
        )


SOURCES: Sequence[Source] = (
    node_faults,
    unreachable_pools,
    paused_pools,
    refused_launches,
    pools_below_target,
    stuck_terminations,
    budgets,
    failed_policies,
    failing_controllers,
    failing_channels,
)
"""Every source of alerts. To add one: write a function above, add its cause to `AlertCause` and
`docs/guides/alerts.md`, and list the function here. State that is not in the fleet is a field of
`AlertInputs`, filled in by `AlertController`."""


def _pool_of(fleet: Fleet, name: PoolName | None) -> Pool | None:
    return None if name is None else fleet.pools.get(name)
