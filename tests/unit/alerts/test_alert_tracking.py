"""When alerts begin, escalate and end."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from navarch.core.alert import Alert, AlertCause, AlertGroup, AlertSilence, AlertState, Severity
from navarch.core.event import Subject
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import AlertId, SilenceId
from navarch.fleet.alerts.conditions import AlertCondition
from navarch.fleet.alerts.tracking import KEEP, RESOLVE_AFTER, plan_alerts
from navarch.testing.worlds import NOW

ID = AlertId("node-fault@training-0")
SECOND = timedelta(seconds=1)


def condition(
    severity: Severity = Severity.WARNING, after: timedelta = 0 * SECOND
) -> AlertCondition:
    return AlertCondition(
        cause=AlertCause.NODE_FAULT,
        subject=Subject("node/training-0"),
        severity=severity,
        summary="XID 79",
        after=after,
    )


class Story:
    """A fleet whose alerts are planned again and again."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.now = NOW
        self.events: list[str] = []
        self.due_at: datetime | None = None

    def see(self, *conditions: AlertCondition, after: timedelta = 0 * SECOND) -> Alert | None:
        """Plan `after` some time; return the alert, if there is one."""
        self.now += after
        known: Mapping[AlertId, AlertCondition] = {each.id: each for each in conditions}
        plan = plan_alerts(self.fleet, known, now=self.now)
        self.events += [event.kind for event in plan.change.events]
        self.due_at = plan.due_at
        self.fleet = apply(self.fleet, plan.change)
        return self.fleet.alerts.get(ID)


def test_a_condition_begins_an_alert_and_repeats_nothing() -> None:
    story = Story()
    first = story.see(condition())
    assert first is not None
    assert first.firing
    assert story.see(condition(), after=SECOND) == first
    assert story.events == ["alert.began"]


def test_an_alert_begins_once_its_condition_has_lasted() -> None:
    story = Story()
    waits = condition(after=60 * SECOND)
    pending = story.see(waits)
    assert pending is not None
    assert pending.state is AlertState.PENDING
    assert story.due_at == NOW + 60 * SECOND
    began = story.see(waits, after=60 * SECOND)
    assert began is not None
    assert began.firing


def test_a_condition_that_passes_in_time_leaves_nothing() -> None:
    story = Story()
    story.see(condition(after=60 * SECOND))
    assert story.see(after=30 * SECOND) is None
    assert story.events == []


def test_a_condition_that_comes_and_goes_is_one_alert() -> None:
    story = Story()
    for _ in range(5):
        story.see(condition(), after=SECOND)
        story.see(after=SECOND)
    assert story.events == ["alert.began"]


def test_an_alert_ends_after_its_condition_was_absent_for_a_while() -> None:
    story = Story()
    story.see(condition())
    story.see(after=SECOND)
    assert story.due_at == story.now + RESOLVE_AFTER
    ended = story.see(after=RESOLVE_AFTER)
    assert ended is not None
    assert ended.state is AlertState.RESOLVED
    assert ended.resolved_at == NOW + SECOND
    assert story.events == ["alert.began", "alert.resolved"]


def test_a_condition_that_returns_begins_the_same_record_again() -> None:
    story = Story()
    versions = []
    for seen in (condition(), None, None, condition()):
        alert = story.see(*([seen] if seen else []), after=RESOLVE_AFTER)
        assert alert is not None
        versions.append(alert.version)
    assert versions == [1, 1, 2, 3]
    assert story.events[-1] == "alert.began"


def test_severity_only_rises_while_an_alert_fires() -> None:
    story = Story()
    story.see(condition())
    worse = story.see(condition(Severity.CRITICAL), after=SECOND)
    assert worse is not None
    assert (worse.severity, worse.version) == (Severity.CRITICAL, 2)
    later = story.see(condition(), after=SECOND)
    assert later is not None
    assert (later.severity, later.version) == (Severity.CRITICAL, 2)
    assert story.events == ["alert.began", "alert.escalated"]


def test_an_alert_is_forgotten_a_week_after_its_end_once_every_channel_knows() -> None:
    story = Story()
    story.see(condition())
    story.see(after=SECOND)
    story.see(after=RESOLVE_AFTER)
    waits = AlertGroup(id="x/node-fault", channel="x", group="node-fault", sent={ID: 1})
    story.fleet = apply(story.fleet, Change(alert_groups=[waits]))
    assert story.see(after=KEEP) is not None
    story.fleet = apply(story.fleet, Change(forget_alert_groups=[waits.id]))
    assert story.see() is None


def test_a_silence_can_be_listed_for_a_week_after_it_expired() -> None:
    silence = AlertSilence(
        id=SilenceId("s"), author="kim", reason="move", starts_at=NOW, ends_at=NOW + SECOND
    )
    story = Story()
    story.fleet = apply(story.fleet, Change(alert_silences=[silence]))
    story.see(after=KEEP)
    assert SilenceId("s") in story.fleet.alert_silences
    story.see(after=SECOND)
    assert not story.fleet.alert_silences
