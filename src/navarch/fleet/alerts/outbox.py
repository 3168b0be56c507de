"""Which messages channels must receive: routes, groups, silences and the limit of messages.

A message is a record before it is sent. Each group of alerts has one record per channel. It holds
what the channel has received (`sent`) and what it must still receive (`pending`). The plan compares
both with the alerts, so that it comes out the same after a crash at any point.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.core.alert import (
    ATTEMPTS_KEPT,
    Alert,
    AlertAction,
    AlertCause,
    AlertGroup,
    AlertMessage,
    AlertState,
    DeliveryAttempt,
    Severity,
)
from navarch.core.duration import backoff_s
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.records import evolve
from navarch.fleet.alerts.tracking import KEEP

LIMIT_WINDOW = timedelta(hours=1)
"""The time over which the messages of a channel are counted."""

FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
"""Pauses after attempts without an answer."""

REFUSED_RETRY_S = 60.0
"""The first pause after a refusal, which an operator probably has to correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRoute:
    """Sends the alerts that match every list to every channel. An empty list matches all."""

    channels: tuple[str, ...]
    severities: tuple[Severity, ...] = (Severity.WARNING, Severity.CRITICAL)
    causes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()

    def matches(self, alert: Alert) -> bool:
        """Return whether `alert` takes this route."""
        return (
            (not self.severities or alert.severity in self.severities)
            and (not self.causes or alert.cause in self.causes)
            and (not self.pools or alert.pool in self.pools)
            and (not self.teams or alert.team in self.teams)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRules:
    """What one channel receives."""

    resolves: bool = True
    """Whether it is notified of the end of alerts."""
    repeat: timedelta | None = None
    """How often alerts that still fire are sent again; None: never."""
    messages_per_hour: int = 60
    """The most messages within an hour, except for new critical alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRouting:
    """Where alerts go, and how they are grouped."""

    channels: Mapping[str, ChannelRules] = field(default_factory=dict)
    routes: Sequence[AlertRoute] = ()
    """An alert goes to the channels of every route that it matches."""
    group_wait: timedelta = timedelta(seconds=30)
    """How long an alert waits for others of its group. An alert that ends earlier is not sent."""
    group_interval: timedelta = timedelta(minutes=5)
    """The least time between messages about one group that add nothing more severe."""

    def channels_of(self, alert: Alert) -> Iterator[str]:
        """Yield the channels that `alert` goes to, each once."""
        found = dict.fromkeys(
            name for route in self.routes if route.matches(alert) for name in route.channels
        )
        for name in found:
            # A channel cannot report its own failure.
            if alert.cause != AlertCause.ALERT_DELIVERY or alert.subject != about("channel", name):
                yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPlan:
    """The records to write before anything is sent, and when to look again."""

    groups: Sequence[AlertGroup]
    forget: Sequence[str]
    due_at: datetime | None

    @property
    def change(self) -> Change:
        """What to commit."""
        return Change(alert_groups=self.groups, forget_alert_groups=self.forget)


def plan_messages(
    fleet: Fleet,
    routing: AlertRouting,
    *,
    cluster: str,
    now: datetime,
    busy: Callable[[str], bool] = lambda _: False,
) -> OutboxPlan:
    """Return the messages that become due; those of a group that is `busy` wait for its answer."""
    slots = _slots_by_channel(fleet, now)
    written: list[AlertGroup] = []
    forget: list[str] = []
    due = [x.ends_at for x in fleet.alert_silences.values() if x.active(now)]
    for (channel, group), alerts in _members(fleet, routing).items():
        name = f"{channel}/{group}"
        if busy(name):
            continue
        before = fleet.alert_groups.get(name)
        rules = routing.channels.get(channel)
        if rules is None or (before is not None and _is_over(before, now)):
            forget += [name] if before is not None else []
            continue
        record = before or AlertGroup(id=name, channel=channel, group=group)
        composer = _Composer(fleet, routing, rules, record, alerts, cluster, slots[channel], now)
        after = composer.compose()
        if after is not record:
            written.append(after)
        waits = after.next_at if after.pending is not None else None
        due += [x for x in (composer.due_at, waits) if x is not None and x > now]
    return OutboxPlan(groups=written, forget=forget, due_at=min(due, default=None))


def _members(fleet: Fleet, routing: AlertRouting) -> Mapping[tuple[str, str], list[Alert]]:
    """Return the alerts of each channel and group."""
    found: dict[tuple[str, str], list[Alert]] = defaultdict(list)
    for alert in fleet.alerts.values():
        if alert.state is not AlertState.PENDING:
            for channel in routing.channels_of(alert):
                found[channel, alert.group].append(alert)
    for record in fleet.alert_groups.values():
        # Alerts that were sent stay in the group, even if a reload has changed the routes.
        alerts = found[record.channel, record.group]
        names = {alert.id for alert in alerts}
        sent = [fleet.alerts.get(name) for name in record.known if name not in names]
        alerts += [each for each in sent if each is not None]
    return found


def _slots_by_channel(fleet: Fleet, now: datetime) -> Mapping[str, list[datetime]]:
    found: dict[str, list[datetime]] = defaultdict(list)
    for record in fleet.alert_groups.values():
        found[record.channel] += [x for x in record.slots if x > now - LIMIT_WINDOW]
    return found


def _is_over(record: AlertGroup, now: datetime) -> bool:
    last = record.composed_at
    return record.pending is None and not record.sent and last is not None and now >= last + KEEP


class _Composer:
    """Composes the next message of one group, if one is due."""

    def __init__(
        self,
        fleet: Fleet,
        routing: AlertRouting,
        rules: ChannelRules,
        record: AlertGroup,
        alerts: Sequence[Alert],
        cluster: str,
        slots: list[datetime],
        now: datetime,
    ) -> None:
        self._fleet = fleet
        self._routing = routing
        self._rules = rules
        self._record = record
        self._cluster = cluster
        self._slots = slots
        self._now = now
        self.due_at: datetime | None = None
        """When a message becomes due that is not due yet."""
        self._known = record.known
        self._alerts = [x for x in alerts if x.id in self._known or self._is_sendable(x)]
        self._firing = [x for x in self._alerts if x.firing]
        old = [x for x in self._firing if x.version <= self._known.get(x.id, 0)]
        self._rank = max((x.severity.rank for x in old), default=-1)

    def compose(self) -> AlertGroup:
        """Return the record with its next message; the same object if there is none."""
        news = [x for x in self._alerts if self._is_news(x)]
        due_at = min(map(self._due_at, news)) if news else self._repeat_at()
        if due_at is None or due_at > self._now:
            self.due_at = due_at
            return self._record
        action = self._action(news)
        announces = action in (AlertAction.TRIGGER, AlertAction.REPEAT)
        if not announces and not self._rules.resolves:
            return self._delivered_without_message(news)
        return self._extended(news, action)

    def _is_sendable(self, alert: Alert) -> bool:
        """Return whether an alert that was never sent may be sent now."""
        if alert.part_of is not None or not alert.firing:
            return False
        silences = self._fleet.alert_silences.values()
        return not any(x.active(self._now) and x.matches(alert) for x in silences)

    def _is_news(self, alert: Alert) -> bool:
        # An end is sent whatever is silenced: it closes what a person was called for.
        changed = alert.version > self._known.get(alert.id, 0)
        return changed and (not alert.firing or self._is_sendable(alert))

    def _due_at(self, alert: Alert) -> datetime:
        due_at = alert.changed_at + self._routing.group_wait
        last = self._record.composed_at
        is_worse = alert.firing and alert.severity.rank > self._rank
        if last is None or is_worse or not self._firing:
            return due_at
        return max(due_at, last + self._routing.group_interval)

    def _repeat_at(self) -> datetime | None:
        """Return when alerts that still fire are sent again."""
        record, every = self._record, self._rules.repeat
        sent = [x for x in self._firing if x.id in record.sent and self._is_sendable(x)]
        if not sent or every is None or record.pending is not None or record.composed_at is None:
            return None
        return record.composed_at + every

    def _action(self, news: Sequence[Alert]) -> AlertAction:
        if not news:
            return AlertAction.REPEAT
        if not self._firing:
            return AlertAction.RESOLVE
        pending = self._record.pending
        begins = pending is not None and pending.action is AlertAction.TRIGGER
        if begins or any(x.firing for x in news):
            return AlertAction.TRIGGER
        return AlertAction.UPDATE

    def _extended(self, news: Sequence[Alert], action: AlertAction) -> AlertGroup:
        """Return the record with a message that replaces the one that was not delivered."""
        record, now, pending = self._record, self._now, self._record.pending
        # An earlier attempt may have arrived: this is another message, with all of its alerts.
        earlier = () if pending is None else pending.news
        reasons = dict.fromkeys([*earlier, *(each.id for each in news)])
        number = record.number + 1
        message = AlertMessage(
            id=f"{self._cluster}/{record.id}#{number}",
            action=action,
            cluster=self._cluster,
            group=record.group,
            alerts=tuple(x for x in self._alerts if x.firing or x.id in reasons),
            news=tuple(reasons),
            created_at=now,
        )
        send_at = self._send_at(news)
        slots = [x for x in record.slots if x > now - LIMIT_WINDOW]
        return evolve(
            record,
            number=number,
            pending=message,
            pending_since=record.pending_since or now,
            next_at=send_at,
            composed_at=now,
            slots=(*slots, send_at) if pending is None else record.slots,
        )

    def _send_at(self, news: Iterable[Alert]) -> datetime:
        """Return when the limit of messages, or the back-off, allows the next one."""
        planned = self._record.next_at if self._record.pending is not None else None
        if planned is not None and self._record.attempts:
            return planned
        if any(x.firing and x.severity is Severity.CRITICAL for x in news):
            send_at = self._now
        elif planned is not None:
            return planned
        else:
            slots, most = sorted(self._slots), self._rules.messages_per_hour
            free = len(slots) < most
            send_at = self._now if free else slots[len(slots) - most] + LIMIT_WINDOW
        self._slots.append(send_at)
        return send_at

    def _delivered_without_message(self, news: Iterable[Alert]) -> AlertGroup:
        sent = {**self._record.sent, **{each.id: each.version for each in news}}
        ended = {each.id for each in news if not each.firing}
        kept = {name: version for name, version in sent.items() if name not in ended}
        return evolve(_idle(self._record), sent=kept, composed_at=self._now)


def delivered(
    record: AlertGroup, message: AlertMessage, answer: str, *, now: datetime
) -> AlertGroup:
    """Return the record after the channel has accepted `message`."""
    sent = {**record.sent, **{each.id: each.version for each in message.alerts}}
    ended = {each.id for each in message.alerts if not each.firing}
    after = evolve(
        record,
        sent={name: version for name, version in sent.items() if name not in ended},
        log=_logged(record, message, answer, ok=True, now=now),
    )
    if record.pending is None or record.pending.id != message.id:
        return after
    return _idle(after)


def _idle(record: AlertGroup) -> AlertGroup:
    """Return the record without a message that must be sent."""
    return evolve(record, pending=None, pending_since=None, attempts=0, next_at=None, error="")


def undelivered(
    record: AlertGroup,
    message: AlertMessage,
    error: str,
    *,
    now: datetime,
    refused: bool = False,
    retry_after: timedelta | None = None,
    jitter: float = 1.0,
) -> tuple[AlertGroup, Event | None]:
    """Return the record after a failed attempt, with an event for the first one in a row."""
    attempts = record.attempts + 1
    first_s = REFUSED_RETRY_S if refused else FIRST_RETRY_S
    pause_s = backoff_s(attempts, first_s=first_s, longest_s=LONGEST_RETRY_S) * jitter
    if retry_after is not None:
        pause_s = max(pause_s, min(retry_after.total_seconds(), LIMIT_WINDOW.total_seconds()))
    after = evolve(
        record,
        attempts=attempts,
        error=error,
        next_at=now + timedelta(seconds=pause_s),
        log=_logged(record, message, error, ok=False, now=now),
    )
    if record.attempts:
        return after, None
    return after, Event(
        at=now,
        about=about("channel", record.channel),
        kind="alert.undelivered",
        reason=f"{error}; the message is sent again until the channel accepts it",
        because=tuple(about("alert", name) for name in message.news[:10]),
        facts={"message": message.id},
    )


def _logged(
    record: AlertGroup, message: AlertMessage, answer: str, *, ok: bool, now: datetime
) -> tuple[DeliveryAttempt, ...]:
    attempt = DeliveryAttempt(
        at=now, message=message.id, action=message.action, delivered=ok, answer=answer
    )
    return (*record.log, attempt)[-ATTEMPTS_KEPT:]
