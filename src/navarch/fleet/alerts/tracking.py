"""When alerts begin, escalate and end: a plan from the conditions that hold now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.alert import Alert, AlertState
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import AlertId
from navarch.core.records import evolve
from navarch.fleet.alerts.conditions import AlertCondition

RESOLVE_AFTER = timedelta(minutes=2)
"""How long a condition must be absent before its alert ends. A condition that comes and goes is one
alert."""

KEEP = timedelta(days=7)
"""How long an alert that ended, and a silence that expired, can be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPlan:
    """What to record about alerts, and when to look again."""

    change: Change
    due_at: datetime | None
    """When time alone begins, ends or forgets an alert; None: never."""


def plan_alerts(
    fleet: Fleet, conditions: Mapping[AlertId, AlertCondition], *, now: datetime
) -> AlertPlan:
    """Return which alerts begin, escalate and end, given the conditions that hold now."""
    written: list[Alert] = []
    events: list[Event] = []
    due: list[datetime] = []
    unsent = {name for group in fleet.alert_groups.values() for name in group.known}
    past = [x.id for x in fleet.alerts.values() if _is_past(x, now)]
    forgotten = [name for name in past if name not in unsent]
    for name, condition in conditions.items():
        known = fleet.alerts.get(name)
        alert = _observed(known, condition, now)
        if alert.state is AlertState.PENDING:
            due.append(alert.seen_at + condition.after)
        if alert != known:
            written.append(alert)
            events += _events(known, alert, now)
    for known in fleet.alerts.values():
        if known.id in conditions or known.state is AlertState.RESOLVED:
            continue
        after = _absent(known, now)
        if after is None:
            forgotten.append(known.id)
            continue
        if after.absent_since is not None and after.state is not AlertState.RESOLVED:
            due.append(after.absent_since + RESOLVE_AFTER)
        if after != known:
            written.append(after)
            events += _events(known, after, now)
    silences = [x.id for x in fleet.alert_silences.values() if now >= x.ends_at + KEEP]
    change = Change(
        alerts=written,
        forget_alerts=[name for name in forgotten if name not in conditions],
        forget_alert_silences=silences,
        events=events,
    )
    return AlertPlan(change=change, due_at=min(due, default=None))


def _observed(known: Alert | None, condition: AlertCondition, now: datetime) -> Alert:
    """Return the alert of a condition that holds, as it is now."""
    again = known is None or known.state is AlertState.RESOLVED
    seen_at = now if known is None or again else known.seen_at
    version = 0 if known is None else known.version
    fires = known is not None and known.firing
    begins = not fires and now >= seen_at + condition.after
    escalates = fires and known is not None and condition.severity.rank > known.severity.rank
    # A sent alert keeps its own identity, and its severity only rises: it is one story.
    severity = condition.severity
    if known is not None and fires and not escalates:
        severity = known.severity
    state = AlertState.FIRING if fires or begins else AlertState.PENDING
    changed = begins or escalates
    return Alert(
        id=condition.id,
        cause=condition.cause,
        subject=condition.subject,
        severity=severity,
        summary=condition.summary,
        remedy=condition.remedy,
        pool=condition.pool,
        team=condition.team,
        group=condition.group or "/".join(filter(None, (condition.cause, condition.pool))),
        part_of=condition.part_of,
        state=state,
        seen_at=seen_at,
        began_at=now if begins else (known.began_at if known is not None and fires else None),
        version=version + changed,
        changed_at=now if changed or known is None else known.changed_at,
    )


def _absent(known: Alert, now: datetime) -> Alert | None:
    """Return an alert whose condition does not hold; None if it never began."""
    if not known.firing:
        return None
    since = known.absent_since or now
    if now < since + RESOLVE_AFTER:
        return evolve(known, absent_since=since)
    return evolve(
        known,
        state=AlertState.RESOLVED,
        absent_since=since,
        resolved_at=since,
        version=known.version + 1,
        changed_at=now,
    )


def _is_past(alert: Alert, now: datetime) -> bool:
    return alert.resolved_at is not None and now >= alert.resolved_at + KEEP


def _events(known: Alert | None, alert: Alert, now: datetime) -> Iterator[Event]:
    if known is not None and known.version == alert.version:
        return
    if alert.version == 0:
        return
    kind, reason = "alert.began", alert.summary
    if alert.state is AlertState.RESOLVED:
        kind, reason = "alert.resolved", f"the condition has ended: {alert.summary}"
    elif known is not None and known.firing:
        kind = "alert.escalated"
    yield Event(
        at=now,
        about=about("alert", alert.id),
        kind=kind,
        reason=reason,
        because=(alert.subject,),
        facts={"cause": alert.cause, "severity": str(alert.severity)},
    )
