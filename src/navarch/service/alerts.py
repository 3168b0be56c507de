"""Alerts, silences and channels for operators."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from navarch.control.alerts import AlertSetup
from navarch.control.runtime.controller import retried
from navarch.core.alert import (
    Alert,
    AlertAction,
    AlertGroup,
    AlertMessage,
    AlertSilence,
    AlertState,
    Severity,
)
from navarch.core.errors import (
    AlertDeliveryError,
    InvalidError,
    NotFoundError,
    NotPossibleError,
)
from navarch.core.event import BY_HAND, Event, about
from navarch.core.fleet import Change
from navarch.core.ids import AlertId, SilenceId
from navarch.core.records import evolve
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.alerts import AlertView, ChannelView, DeliveryView, SilenceRequest
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Store

SILENCE_MAX = timedelta(days=90)
"""A silence that is forgotten must end."""

TEXT_MAX = 500

DELIVERIES_SHOWN = 100

TEST_WITHIN = timedelta(seconds=20)
"""Less than a request to the API may take."""


class AlertService:
    """Serves AlertApi."""

    def __init__(self, clock: Clock, entropy: Entropy, store: Store, setup: AlertSetup) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._setup = setup

    async def list_alerts(self, *, ended: bool = False) -> Sequence[AlertView]:
        """Return the alerts that fire, and those that ended."""
        fleet, now = self._store.fleet(), self._clock.now()
        channels: dict[AlertId, list[str]] = defaultdict(list)
        for group in fleet.alert_groups.values():
            for name in group.sent:
                channels[name].append(group.channel)
        silences = [x for x in fleet.alert_silences.values() if x.active(now)]
        found = [x for x in fleet.alerts.values() if x.firing or (ended and x.resolved_at)]
        return [
            AlertView(
                alert=alert,
                silenced_by=next((x.id for x in silences if x.matches(alert)), None),
                channels=tuple(sorted(channels[alert.id])),
            )
            for alert in sorted(found, key=_urgency)
        ]

    async def list_silences(self, *, expired: bool = False) -> Sequence[AlertSilence]:
        """Return the silences, the first to end first."""
        now = self._clock.now()
        known = self._store.fleet().alert_silences.values()
        found = [x for x in known if expired or x.active(now)]
        return sorted(found, key=lambda each: (each.ends_at, each.id))

    async def silence(self, request: SilenceRequest) -> AlertSilence:
        """Silence alerts for some time."""
        _check(request)
        now = self._clock.now()
        silence = AlertSilence(
            id=SilenceId(self._entropy.new_id("silence")),
            author=request.author.strip(),
            reason=request.reason.strip(),
            starts_at=now,
            ends_at=now + timedelta(seconds=request.seconds),
            cause=request.cause,
            pool=request.pool,
            team=request.team,
            subject=request.subject,
        )
        reason = f"until {silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.reason}"
        await self._commit(silence, "alert.silenced", reason, silence.author)
        return silence

    @retried
    async def end_silence(self, silence: SilenceId, *, author: str) -> AlertSilence:
        """End a silence now."""
        known = self._store.fleet().alert_silences.get(silence)
        if known is None:
            raise NotFoundError(f"silence not found: {silence}")
        now = self._clock.now()
        if not known.active(now):
            raise NotPossibleError(f"silence {silence} has expired")
        ended = evolve(known, ends_at=now)
        await self._commit(ended, "alert.unsilenced", "ended by hand", author)
        return ended

    async def list_channels(self) -> Sequence[ChannelView]:
        """Return every channel."""
        groups: dict[str, list[AlertGroup]] = defaultdict(list)
        for group in self._store.fleet().alert_groups.values():
            groups[group.channel].append(group)
        channels = self._setup.channels()
        return [_view(name, type(x).__name__, groups[name]) for name, x in sorted(channels.items())]

    async def list_deliveries(self, *, channel: str | None = None) -> Sequence[DeliveryView]:
        """Return the latest attempts to send messages, latest first."""
        if channel is not None:
            self._find(channel)
        found = [
            DeliveryView(channel=group.channel, group=group.group, attempt=attempt)
            for group in self._store.fleet().alert_groups.values()
            if channel in (None, group.channel)
            for attempt in group.log
        ]
        found.sort(key=lambda each: (each.attempt.at, each.attempt.message), reverse=True)
        return found[:DELIVERIES_SHOWN]

    async def send_test(self, channel: str, *, author: str) -> str:
        """Send a test message and return the answer. It passes no route, silence or limit."""
        found, message = self._find(channel), self._test(channel, author)
        try:
            async with asyncio.timeout(TEST_WITHIN.total_seconds()):
                return await found.send(message)
        except TimeoutError:
            text = f"no answer within {TEST_WITHIN.total_seconds():.0f} s"
        except AlertDeliveryError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - a bug of an extension
            text = f"{type(error).__name__} in channel {channel}"
        raise NotPossibleError(f"channel {channel} did not accept the test: {text}")

    def _find(self, channel: str) -> AlertChannel:
        known = self._setup.channels()
        if channel not in known:
            raise NotFoundError(f"channel not found: {channel} (channels: {', '.join(known)})")
        return known[channel]

    def _test(self, channel: str, author: str) -> AlertMessage:
        now = self._clock.now()
        alert = Alert(
            id=AlertId(f"test@{channel}"),
            cause="test",
            subject=about("channel", channel),
            severity=Severity.INFO,
            summary=f"test of channel {channel}, requested by {author or 'an operator'}",
            remedy="nothing to do",
            group="test",
            state=AlertState.FIRING,
            seen_at=now,
            began_at=now,
            changed_at=now,
            version=1,
        )
        cluster = self._store.cluster.id
        return AlertMessage(
            id=f"{cluster}/{channel}/{self._entropy.new_id('test')}",
            action=AlertAction.TEST,
            cluster=cluster,
            group="test",
            alerts=(alert,),
            news=(alert.id,),
            created_at=now,
        )

    async def _commit(self, silence: AlertSilence, kind: str, reason: str, author: str) -> None:
        event = Event(
            at=self._clock.now(),
            about=about("silence", silence.id),
            kind=kind,
            reason=f"{author}: {reason}",
            facts={"by": BY_HAND, "author": author},
        )
        change = Change(alert_silences=[silence], events=[event])
        await self._store.commit(change, based_on=self._store.fleet().revision)


def _check(request: SilenceRequest) -> None:
    """Raise InvalidError if a silence would last or match without a limit."""
    if not request.author.strip():
        raise InvalidError("author: a silence needs an author")
    if not 0 < request.seconds <= SILENCE_MAX.total_seconds():
        raise InvalidError(f"seconds: a silence lasts at most {SILENCE_MAX.days} days, above zero")
    patterns = (request.cause, request.pool, request.team, request.subject)
    if not any(patterns):
        raise InvalidError("name a cause, pool, team or subject; `*` matches everything")
    for text in (request.author, request.reason, *patterns):
        if len(text) > TEXT_MAX or not (text.isprintable() or not text):
            raise InvalidError(f"a text has unprintable or more than {TEXT_MAX} characters")


def _urgency(alert: Alert) -> tuple[bool, int, str, str]:
    began = alert.began_at or alert.seen_at
    return (not alert.firing, -alert.severity.rank, began.isoformat(), alert.id)


def _view(name: str, kind: str, groups: Sequence[AlertGroup]) -> ChannelView:
    waiting = [each for each in groups if each.pending is not None]
    worst = max(waiting, key=lambda each: each.attempts, default=None)
    delivered = [x.at for each in groups for x in each.log if x.delivered]
    return ChannelView(
        name=name,
        kind=kind.removesuffix("Channel").lower(),
        waiting=len(waiting),
        failures=worst.attempts if worst else 0,
        error=worst.error if worst else "",
        retry_at=min((x.next_at for x in waiting if x.next_at), default=None),
        delivered_at=max(delivered, default=None),
    )
