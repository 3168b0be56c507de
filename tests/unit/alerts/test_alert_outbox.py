"""Which messages channels receive: routes, groups, silences, limits, and nothing twice."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from navarch.core.alert import (
    Alert,
    AlertAction,
    AlertGroup,
    AlertMessage,
    AlertSilence,
    AlertState,
    Severity,
)
from navarch.core.event import Subject
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import AlertId, PoolName, SilenceId
from navarch.core.records import evolve
from navarch.fleet.alerts.outbox import (
    LIMIT_WINDOW,
    AlertRoute,
    AlertRouting,
    ChannelRules,
    delivered,
    plan_messages,
    undelivered,
)
from navarch.testing.worlds import NOW

WAIT, INTERVAL = timedelta(seconds=30), timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def an_alert(name: str = "training-0", **facts: object) -> Alert:
    pool = str(facts.get("pool", "training"))
    return Alert(
        **{
            "id": AlertId(f"node-fault@{name}"),
            "cause": "node-fault",
            "subject": Subject(f"node/{name}"),
            "severity": Severity.WARNING,
            "summary": "XID 79",
            "pool": PoolName(pool),
            "group": f"node-fault/{pool}",
            "state": AlertState.FIRING,
            "seen_at": NOW,
            "version": 1,
            "changed_at": NOW,
            **facts,
        }  # type: ignore[arg-type]
    )


def routed(*routes: AlertRoute, **rules: ChannelRules) -> AlertRouting:
    channels = {name: ChannelRules() for route in routes for name in route.channels} | rules
    return AlertRouting(channels=channels, routes=routes, group_wait=WAIT, group_interval=INTERVAL)


TO_OPS = routed(AlertRoute(channels=("ops",)))


class Post:
    """Channels that accept every message, unless they are `down`."""

    def __init__(self, routing: AlertRouting = TO_OPS) -> None:
        self.routing = routing
        self.fleet = Fleet()
        self.now = NOW
        self.sent: list[AlertMessage] = []
        self.channels: list[str] = []
        self.down = False
        self.due_at: datetime | None = None

    def put(self, *alerts: Alert, silences: Iterable[AlertSilence] = ()) -> None:
        self.fleet = apply(self.fleet, Change(alerts=alerts, alert_silences=tuple(silences)))

    def end(self, *alerts: Alert) -> None:
        self.put(*[self.ended(each) for each in alerts])

    def ended(self, alert: Alert) -> Alert:
        return evolve(
            alert,
            state=AlertState.RESOLVED,
            version=alert.version + 1,
            changed_at=self.now,
            resolved_at=self.now,
        )

    def run(self, after: timedelta = 0 * SECOND) -> list[AlertMessage]:
        """Plan and send `after` some time; return the messages of this round."""
        self.now += after
        plan = plan_messages(self.fleet, self.routing, cluster="c1", now=self.now)
        self.due_at = plan.due_at
        self.fleet = apply(self.fleet, plan.change)
        round_: list[AlertMessage] = []
        for record in list(self.fleet.alert_groups.values()):
            message = record.pending
            if message is None or record.next_at is None or record.next_at > self.now:
                continue
            round_.append(message)
            self.channels.append(record.channel)
            answered = delivered(record, message, "ok", now=self.now)
            if self.down:
                answered, _ = undelivered(record, message, "503", now=self.now)
            self.fleet = apply(self.fleet, Change(alert_groups=[answered]))
        self.sent += round_
        return round_


def actions(messages: Iterable[AlertMessage]) -> list[AlertAction]:
    return [each.action for each in messages]


def test_alerts_of_one_pool_within_the_wait_are_one_message_with_their_count() -> None:
    post = Post()
    post.put(*[an_alert(f"training-{i}") for i in range(40)])
    assert post.run() == []
    assert post.due_at == NOW + WAIT
    (message,) = post.run(WAIT)
    assert message.action is AlertAction.TRIGGER
    assert len(message.firing) == 40
    assert post.run(INTERVAL) == []


def test_an_alert_that_ends_within_the_wait_is_not_sent() -> None:
    post = Post()
    post.put(an_alert())
    post.run()
    post.end(an_alert())
    post.run(timedelta(hours=1))
    assert post.sent == []


def test_later_alerts_of_a_group_wait_for_the_interval() -> None:
    post = Post()
    post.put(an_alert())
    post.run(WAIT)
    for index in range(1, 6):
        post.put(an_alert(f"training-{index}", changed_at=post.now))
        assert post.run(30 * SECOND) == []
    (message,) = post.run(INTERVAL)
    assert len(message.firing) == 6
    assert len(message.news) == 5


def test_a_more_severe_alert_does_not_wait_for_the_interval() -> None:
    post = Post()
    post.put(an_alert())
    post.run(WAIT)
    post.put(an_alert(severity=Severity.CRITICAL, version=2, changed_at=post.now))
    (message,) = post.run(WAIT)
    assert message.severity is Severity.CRITICAL


def test_the_end_of_the_last_alert_is_sent_once() -> None:
    post = Post()
    first, second = an_alert("training-0"), an_alert("training-1")
    post.put(first, second)
    post.run(WAIT)
    post.end(first)
    assert actions(post.run(INTERVAL)) == [AlertAction.UPDATE]
    post.end(second)
    (resolved,) = post.run(WAIT)
    assert resolved.action is AlertAction.RESOLVE
    assert resolved.news == (second.id,)
    assert post.run(timedelta(hours=2)) == []


def test_messages_of_one_group_share_a_dedup_key_and_differ_in_their_id() -> None:
    post = Post()
    post.put(an_alert())
    post.run(WAIT)
    post.end(an_alert())
    post.run(WAIT)
    assert len({each.dedup_key for each in post.sent}) == 1
    assert len({each.id for each in post.sent}) == 2


def test_a_message_that_was_not_delivered_is_sent_again_with_the_same_id() -> None:
    post = Post()
    post.down = True
    post.put(an_alert())
    post.run(WAIT)
    assert post.run() == []  # it backs off
    post.down = False
    post.run(timedelta(minutes=5))
    post.run(INTERVAL)
    first, again = post.sent
    assert first.id == again.id


def test_news_during_a_failure_become_one_message() -> None:
    post = Post()
    post.down = True
    post.put(an_alert("training-0"))
    post.run(WAIT)
    post.put(an_alert("training-1", changed_at=post.now))
    post.end(an_alert("training-0"))
    post.down = False
    post.run(INTERVAL)
    post.run(INTERVAL)
    last = post.sent[-1]
    assert last.id != post.sent[0].id
    assert last.action is AlertAction.TRIGGER
    assert {each.id: each.firing for each in last.alerts} == {
        "node-fault@training-0": False,
        "node-fault@training-1": True,
    }


def test_ends_during_a_failure_are_part_of_the_next_message() -> None:
    post = Post()
    alerts = an_alert("training-0"), an_alert("training-1")
    post.put(*alerts)
    post.down = True
    post.run(WAIT)
    post.routing = routed(AlertRoute(channels=("ops",), pools=("serving",)))
    for alert in alerts:
        post.end(alert)
        post.run(2 * INTERVAL)
    resolved = post.sent[-1]
    assert resolved.action is AlertAction.RESOLVE
    assert set(resolved.news) == {each.id for each in alerts}


def test_an_end_during_a_failure_is_sent_since_the_attempt_may_have_arrived() -> None:
    post = Post()
    post.down = True
    post.put(an_alert())
    post.run(WAIT)
    post.end(an_alert())
    post.down = False
    post.run(INTERVAL)
    assert actions(post.sent) == [AlertAction.TRIGGER, AlertAction.RESOLVE]


def test_an_answer_to_an_earlier_message_leaves_the_newer_one_pending() -> None:
    post = Post()
    post.put(an_alert("training-0"))
    post.down = True
    (first,) = post.run(WAIT)
    post.put(an_alert("training-1", changed_at=post.now - INTERVAL))
    post.now += INTERVAL
    plan = plan_messages(post.fleet, TO_OPS, cluster="c1", now=post.now)
    (record,) = plan.groups
    after = delivered(record, first, "ok, late", now=post.now)
    assert after.pending is not None
    assert after.pending.id != first.id


def test_a_message_under_way_is_not_changed() -> None:
    post = Post()
    post.put(an_alert())
    post.down = True
    post.run(WAIT)
    post.end(an_alert())
    later = post.now + INTERVAL
    plan = plan_messages(post.fleet, TO_OPS, cluster="c1", now=later, busy=lambda _: True)
    assert not plan.groups


@pytest.mark.parametrize(
    ("route", "takes"),
    [
        (AlertRoute(channels=("ops",)), True),
        (AlertRoute(channels=("ops",), severities=(Severity.CRITICAL,)), False),
        (AlertRoute(channels=("ops",), causes=("budget-spent",)), False),
        (AlertRoute(channels=("ops",), pools=("training",)), True),
        (AlertRoute(channels=("ops",), pools=("serving",)), False),
        (AlertRoute(channels=("ops",), teams=("nlp",)), True),
        (AlertRoute(channels=("ops",), teams=("vision",)), False),
        (AlertRoute(channels=("ops",), pools=("training",), teams=("vision",)), False),
    ],
)
def test_a_route_takes_the_alerts_that_match_all_of_it(route: AlertRoute, takes: bool) -> None:
    post = Post(routed(route))
    post.put(an_alert(team="nlp"))
    assert bool(post.run(WAIT)) is takes


def test_an_alert_of_two_routes_to_one_channel_is_sent_once() -> None:
    post = Post(routed(AlertRoute(channels=("ops",)), AlertRoute(channels=("ops", "mail"))))
    post.put(an_alert())
    post.run(WAIT)
    assert sorted(post.channels) == ["mail", "ops"]


def test_a_channel_does_not_report_its_own_failure() -> None:
    post = Post(routed(AlertRoute(channels=("ops", "mail"))))
    post.put(an_alert(cause="alert-delivery", subject=Subject("channel/ops")))
    post.run(WAIT)
    assert post.channels == ["mail"]


def test_an_explained_alert_is_not_sent_until_it_stands_alone() -> None:
    post = Post()
    explained = an_alert(part_of=AlertId("nodes-unreachable@training"))
    post.put(explained)
    assert post.run(timedelta(hours=1)) == []
    post.put(evolve(explained, part_of=None))
    assert len(post.run()) == 1


def a_silence(**facts: object) -> AlertSilence:
    return AlertSilence(
        **{
            "id": SilenceId("s1"),
            "author": "kim",
            "reason": "rack move",
            "starts_at": NOW,
            "ends_at": NOW + timedelta(hours=1),
            "pool": "train*",
            **facts,
        }  # type: ignore[arg-type]
    )


def test_a_silenced_alert_is_sent_when_the_silence_expires() -> None:
    post = Post()
    post.put(an_alert(), silences=[a_silence()])
    assert post.run(WAIT) == []
    assert post.due_at == NOW + timedelta(hours=1)
    post.now = NOW + timedelta(hours=1)
    assert len(post.run()) == 1


@pytest.mark.parametrize(
    ("patterns", "matches"),
    [
        ({"pool": "train*"}, True),
        ({"pool": "serving"}, False),
        ({"pool": "training", "team": "vision"}, False),
        ({"pool": "", "cause": "node-*"}, True),
        ({"pool": "", "subject": "training-0"}, True),
        ({"pool": "", "subject": "node/training-*"}, True),
        ({"pool": "", "subject": "pool/training-*"}, False),
    ],
)
def test_a_silence_matches_by_all_of_its_patterns(patterns: dict[str, str], matches: bool) -> None:
    assert a_silence(**patterns).matches(an_alert()) is matches


def test_the_end_of_a_sent_alert_is_sent_in_spite_of_a_silence() -> None:
    post = Post()
    post.put(an_alert())
    post.run(WAIT)
    post.put(silences=[a_silence()])
    post.end(an_alert())
    assert actions(post.run(WAIT)) == [AlertAction.RESOLVE]


def test_a_channel_without_ends_receives_beginnings_only() -> None:
    post = Post(routed(AlertRoute(channels=("ops",)), ops=ChannelRules(resolves=False)))
    post.put(an_alert())
    post.run(WAIT)
    post.end(an_alert())
    assert post.run(INTERVAL) == []
    post.put(an_alert(version=3, changed_at=post.now))
    assert actions(post.run(INTERVAL)) == [AlertAction.TRIGGER]


def test_alerts_that_still_fire_are_repeated_if_the_channel_wants_it() -> None:
    every = timedelta(hours=4)
    post = Post(routed(AlertRoute(channels=("ops",)), ops=ChannelRules(repeat=every)))
    post.put(an_alert())
    post.run(WAIT)
    post.run()
    assert post.due_at == post.now + every
    assert actions(post.run(every)) == [AlertAction.REPEAT]
    post.end(an_alert())
    post.run(WAIT)
    assert post.run(every) == []


def pools(count: int, severity: Severity = Severity.WARNING) -> list[Alert]:
    return [an_alert(f"p{i}-0", pool=f"p{i}", severity=severity) for i in range(count)]


def test_a_channel_receives_no_more_than_its_limit_within_an_hour() -> None:
    rules = ChannelRules(messages_per_hour=3)
    post = Post(routed(AlertRoute(channels=("ops",)), ops=rules))
    post.put(*pools(7))
    counts = [len(post.run(WAIT))]
    for _ in range(2):
        post.run()
        assert post.due_at is not None
        counts.append(len(post.run(post.due_at - post.now)))
    assert counts == [3, 3, 1]
    assert post.now >= NOW + 2 * LIMIT_WINDOW


def test_critical_alerts_are_sent_beyond_the_limit() -> None:
    rules = ChannelRules(messages_per_hour=1)
    post = Post(routed(AlertRoute(channels=("ops",)), ops=rules))
    post.put(*pools(4, Severity.CRITICAL))
    assert len(post.run(WAIT)) == 4


def test_a_channel_that_left_the_configuration_receives_nothing_more() -> None:
    post = Post()
    post.down = True
    post.put(an_alert())
    post.run(WAIT)
    post.routing = AlertRouting()
    assert post.run(timedelta(hours=1)) == []
    assert not post.fleet.alert_groups


def test_an_alert_that_was_sent_stays_in_its_group_when_the_routes_change() -> None:
    post = Post()
    post.put(an_alert())
    post.run(WAIT)
    post.routing = routed(AlertRoute(channels=("ops",), pools=("serving",)))
    post.end(an_alert())
    assert actions(post.run(WAIT)) == [AlertAction.RESOLVE]


def test_pauses_grow_and_follow_the_wish_of_the_service() -> None:
    message = AlertMessage(
        id="m",
        action=AlertAction.TRIGGER,
        cluster="c",
        group="g",
        alerts=(),
        news=(),
        created_at=NOW,
    )
    record = AlertGroup(id="ops/g", channel="ops", group="g", pending=message)
    pauses = []
    for _ in range(10):
        record, event = undelivered(record, message, "503", now=NOW)
        assert (event is not None) is (record.attempts == 1)
        assert record.next_at is not None
        pauses.append((record.next_at - NOW).total_seconds())
    assert pauses[:4] == [5, 10, 20, 40]
    assert max(pauses) == 300
    asked = timedelta(minutes=20)
    record, _ = undelivered(record, message, "429", now=NOW, retry_after=asked)
    assert record.next_at == NOW + asked
