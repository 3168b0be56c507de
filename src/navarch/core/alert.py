"""Alerts: conditions that people must learn of, silences, and the messages about them."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from navarch.core.event import Subject
from navarch.core.ids import AlertId, PoolName, SilenceId


class Severity(StrEnum):
    """How urgent an alert is, the least urgent first."""

    INFO = "info"
    WARNING = "warning"
    """Automation deals with it, or it can wait until the next day."""
    CRITICAL = "critical"
    """A person must act now."""

    @property
    def rank(self) -> int:
        """The position in the order of urgency."""
        return list(Severity).index(self)


class AlertCause(StrEnum):
    """The kinds of conditions that alert."""

    NODE_FAULT = "node-fault"
    """A node is unhealthy, or an incident is open."""
    NODES_UNREACHABLE = "nodes-unreachable"
    """Many nodes stopped reporting at once."""
    AUTOMATION_PAUSED = "automation-paused"
    """Automation acts on no node of a pool."""
    PURCHASES_PAUSED = "purchases-paused"
    """A pool buys no machines."""
    LAUNCHES_REFUSED = "launches-refused"
    """Only an operator can make the launches of a pool succeed."""
    PROVIDER_CREDENTIALS = "provider-credentials"
    """A provider rejects the credentials."""
    POOL_BELOW_TARGET = "pool-below-target"
    """A pool lacks nodes."""
    BUDGET_SPENT = "budget-spent"
    """A budget is nearly or wholly spent."""
    TERMINATION_STUCK = "termination-stuck"
    """A machine that is to be terminated still exists, and costs money."""
    POLICY_FAILED = "policy-failed"
    """The health policy cannot judge a check."""
    CONTROLLER_FAILING = "controller-failing"
    """A controller fails again and again."""
    ALERT_DELIVERY = "alert-delivery"
    """A channel does not accept alerts."""


class AlertState(StrEnum):
    """The state of an alert."""

    PENDING = "pending"
    """The condition was observed, but has not lasted for as long as its cause requires."""
    FIRING = "firing"
    RESOLVED = "resolved"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One condition with one cause and one subject, from its beginning to its end.

    The record stays for a while after the end. If the condition returns, the same record begins
    again.
    """

    id: AlertId
    cause: str
    subject: Subject
    severity: Severity
    summary: str
    remedy: str = ""
    """What an operator can do."""
    pool: PoolName | None = None
    team: str = ""
    group: str
    """Alerts of one group are sent in one message."""
    part_of: AlertId | None = None
    """The alert that explains this one, and is sent in its place."""
    state: AlertState
    seen_at: datetime
    """When the condition was first observed."""
    began_at: datetime | None = None
    """When it began to fire."""
    absent_since: datetime | None = None
    """Since when the condition is no longer observed."""
    resolved_at: datetime | None = None
    version: int = 0
    """Counts beginnings, escalations and ends: what channels must be notified of."""
    changed_at: datetime
    """When `version` last grew."""

    @property
    def firing(self) -> bool:
        """Whether it fires."""
        return self.state is AlertState.FIRING


class AlertSilence(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts that are not sent for some time. Patterns may contain `*`; empty: any."""

    id: SilenceId
    author: str
    reason: str
    starts_at: datetime
    ends_at: datetime
    cause: str = ""
    pool: str = ""
    team: str = ""
    subject: str = ""
    """The subject with or without its kind: `node/training-3` or `training-*`."""

    def active(self, now: datetime) -> bool:
        """Return whether it applies at `now`."""
        return self.starts_at <= now < self.ends_at

    def matches(self, alert: Alert) -> bool:
        """Return whether every pattern matches `alert`."""
        kind, _, name = alert.subject.partition("/")
        return (
            _matches(self.cause, alert.cause)
            and _matches(self.pool, alert.pool or "")
            and _matches(self.team, alert.team)
            and (_matches(self.subject, name) or _matches(self.subject, f"{kind}/{name}"))
        )


def _matches(pattern: str, text: str) -> bool:
    return not pattern or fnmatchcase(text, pattern)


class AlertAction(StrEnum):
    """The purpose of a message."""

    TRIGGER = "trigger"
    """Alerts began or escalated."""
    UPDATE = "update"
    """Some alerts of the group ended, and others still fire."""
    REPEAT = "repeat"
    """Nothing is new: the alerts still fire."""
    RESOLVE = "resolve"
    """The last alert of the group ended."""
    TEST = "test"
    """An operator tests the channel."""


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one channel, durable before it is sent."""

    id: str
    """The same in every attempt, so that a receiver can recognise a repetition."""
    action: AlertAction
    cluster: str
    group: str
    """The cause of its alerts and, for most causes, the pool."""
    alerts: tuple[Alert, ...]
    """The alerts of the group that fire, and those that ended since the last message."""
    news: tuple[AlertId, ...]
    """Those of the alerts that are the reason for the message."""
    created_at: datetime

    @property
    def severity(self) -> Severity:
        """The highest severity of the alerts that fire, or of all if none does."""
        known = self.firing or self.alerts
        return max((each.severity for each in known), key=lambda each: each.rank)

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The alerts that fire."""
        return tuple(each for each in self.alerts if each.firing)

    @property
    def title(self) -> str:
        """One line: the worst of its alerts, and how many there are."""
        shown = sorted(self.firing or self.alerts, key=lambda each: -each.severity.rank)
        state = str(self.severity) if self.firing else "resolved"
        if self.action is AlertAction.TEST:
            state = "test"
        count = f"{len(shown)} alerts of {self.group}, such as " if len(shown) > 1 else ""
        return f"[{state}] {count}{shown[0].summary}"

    @property
    def dedup_key(self) -> str:
        """The same for all messages about one group of one cluster."""
        return f"navarch/{self.cluster}/{self.group}"


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to send a message, with the answer of the service or the error."""

    at: datetime
    message: str
    action: AlertAction
    delivered: bool
    answer: str


ATTEMPTS_KEPT = 30
"""How many attempts the delivery log of one group holds."""


class AlertGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What one channel has received about one group of alerts, and what it must still receive."""

    id: str
    """The channel and the group: `oncall/node-fault/training`."""
    channel: str
    group: str
    sent: Mapping[AlertId, int] = msgspec.field(default_factory=dict)
    """The alerts whose end was not delivered, each with the version that was."""
    number: int = 0
    """The number of the last message."""
    pending: AlertMessage | None = None
    """The message that is to be sent."""
    pending_since: datetime | None = None
    """Since when something is undelivered; kept while the message grows."""
    attempts: int = 0
    """The number of failed attempts since then."""
    next_at: datetime | None = None
    """When the message is sent."""
    error: str = ""
    """Why the last attempt failed."""
    composed_at: datetime | None = None
    """When the last message was composed."""
    slots: tuple[datetime, ...] = ()
    """When its messages of the last hour were allowed to be sent."""
    log: tuple[DeliveryAttempt, ...] = ()

    @property
    def known(self) -> Mapping[AlertId, int]:
        """The alerts that the channel may have received, each with its newest version."""
        pending = () if self.pending is None else self.pending.alerts
        return {**self.sent, **{each.id: each.version for each in pending}}
