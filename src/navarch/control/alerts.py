"""Controllers of alerts: one tracks what deserves an alert, the other delivers the messages.

A message is committed before it is sent, and what a channel received after it answered. A crash in
between sends the message again, with the same id.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from navarch.control.runtime.controller import Controller, retried
from navarch.control.runtime.extensions import (
    Extension,
    ExtensionGuard,
    ExtensionKind,
    name_of,
)
from navarch.control.runtime.operations import OperationRunner
from navarch.core.alert import AlertGroup, AlertMessage
from navarch.core.errors import AlertDeliveryError, ExtensionFailedError
from navarch.core.event import about
from navarch.core.fleet import Change
from navarch.fleet.alerts.conditions import AlertInputs, find_conditions
from navarch.fleet.alerts.outbox import AlertRouting, delivered, plan_messages, undelivered
from navarch.fleet.alerts.tracking import plan_alerts
from navarch.fleet.money.budgets import Spending
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.api import FailingController
from navarch.ports.clock import Clock, Entropy
from navarch.ports.metrics import Counter as MetricCounter
from navarch.ports.metrics import Metrics
from navarch.ports.store import Committed, Store

log = structlog.get_logger(__name__)

ALL_ALERTS = "all alerts"

OK, ERROR = "ok", "error"
"""The results of attempts, as a metric counts them."""

LOOK_AFTER = timedelta(seconds=2)
"""How long after a commit the fleet is searched for alerts: a storm commits many times a second."""

LOOK_EVERY = timedelta(minutes=1)
"""Between searches without a commit. Budgets and failing controllers are in no commit."""

SEND_WITHIN = timedelta(seconds=60)
"""How long one attempt may take. A channel that hangs is not waited for."""

AT_ONCE = 4
"""How many messages one channel may have under way. The others wait for their answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSetup:
    """Where alerts go. All of it is read in every round, so that a reload may change it."""

    channels: Callable[[], Mapping[str, AlertChannel]] = dict
    routing: Callable[[], AlertRouting] = AlertRouting
    below_target_after: Callable[[], timedelta] = lambda: timedelta(minutes=30)


class AlertController(Controller):
    """Records when alerts begin, escalate and end."""

    name = "alerts"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        setup: AlertSetup,
        *,
        spending: Callable[[], Sequence[Spending]] = tuple,
        failing: Callable[[], Sequence[FailingController]] = tuple,
    ) -> None:
        super().__init__(clock, store, [ALL_ALERTS])
        self._setup = setup
        self._spending = spending
        self._failing = failing

    def on_commit(self, committed: Committed) -> None:
        """Queue a search for alerts, soon."""
        del committed
        self.queue.add_by(ALL_ALERTS, self._clock.now() + LOOK_AFTER)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Compare the conditions that hold with the alerts on record."""
        now, fleet = self._clock.now(), self._store.fleet()
        inputs = AlertInputs(
            fleet=fleet,
            now=now,
            spending=self._spending(),
            failing=self._failing(),
            below_target_after=self._setup.below_target_after(),
        )
        plan = plan_alerts(fleet, find_conditions(inputs), now=now)
        if not plan.change.empty:
            await self._store.commit(plan.change, based_on=fleet.revision)
        self.queue.add_by(ALL_ALERTS, now + LOOK_EVERY)
        if plan.due_at is not None:
            self.queue.add_by(ALL_ALERTS, plan.due_at)


class OutboxController(Controller):
    """Composes the messages that are due, and sends them."""

    name = "alert-outbox"

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        setup: AlertSetup,
        operations: OperationRunner,
        metrics: Metrics,
        guard: ExtensionGuard | None = None,
    ) -> None:
        super().__init__(clock, store, [ALL_ALERTS])
        self._entropy = entropy
        self._setup = setup
        self._operations = operations
        self._guard = guard or ExtensionGuard(clock.now)
        self._deliveries = count_deliveries(metrics)
        for channel in setup.channels():
            for result in (OK, ERROR):
                # A series that begins at one hides its first increase from Prometheus.
                self._deliveries.add(0, channel=channel, result=result)

    def on_commit(self, committed: Committed) -> None:
        """Queue the outbox if alerts, silences or its own records have changed."""
        change = committed.change
        if change.alerts or change.alert_groups or change.alert_silences or change.forget_alerts:
            self.queue.add(ALL_ALERTS)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Commit the messages that are due; then send those that are committed."""
        fleet, now = self._store.fleet(), self._clock.now()
        plan = plan_messages(
            fleet,
            self._setup.routing(),
            cluster=self._store.cluster.id,
            now=now,
            busy=lambda group: self._operations.busy(_key(group)),
        )
        if not plan.change.empty:
            fleet = await self._store.commit(plan.change, based_on=fleet.revision)
        self.queue.add_by(ALL_ALERTS, plan.due_at or now + LOOK_EVERY)
        self._send_due(list(fleet.alert_groups.values()))

    def _send_due(self, groups: Sequence[AlertGroup]) -> None:
        channels, now = self._setup.channels(), self._clock.now()
        busy = {each.id for each in groups if self._operations.busy(_key(each.id))}
        under_way = Counter(each.channel for each in groups if each.id in busy)
        then = partial(self.queue.add, ALL_ALERTS)
        for group in groups:
            channel = channels.get(group.channel)
            is_due = group.next_at is not None and group.next_at <= now
            if channel is None or group.pending is None or not is_due or group.id in busy:
                continue
            if under_way[group.channel] < AT_ONCE:
                under_way[group.channel] += 1
                send = partial(self._send, channel, group.id, group.pending)
                self._operations.send(
                    _key(group.id), send, then=then, slow=True, system=f"alerts/{group.channel}"
                )

    async def _send(self, channel: AlertChannel, group: str, message: AlertMessage) -> None:
        name = name_of(channel)
        extension = Extension(
            kind=ExtensionKind.ALERT_CHANNEL, name=name, subject=about("channel", name)
        )
        try:
            answer = await self._guard.wait_for(
                extension,
                channel,
                lambda: _send_checked(channel, message),
                within=SEND_WITHIN,
                answers=(AlertDeliveryError,),
            )
        except AlertDeliveryError as error:
            await self._record_failure(group, message, error)
        except ExtensionFailedError as error:
            # A bug of a channel, which may be an extension, is a failure of that channel only.
            cause = error.__cause__
            text = f"{type(cause).__name__} in channel {name}; the log of the server has it"
            if isinstance(cause, TimeoutError):
                text = str(cause)
            await self._record_failure(group, message, AlertDeliveryError(text))
        else:
            await self._record_answer(group, message, answer)

    @retried
    async def _record_answer(self, group: str, message: AlertMessage, answer: str) -> None:
        fleet = self._store.fleet()
        record = fleet.alert_groups.get(group)
        if record is not None:
            after = delivered(record, message, answer, now=self._clock.now())
            await self._store.commit(Change(alert_groups=[after]), based_on=fleet.revision)
            self._deliveries.add(channel=record.channel, result=OK)

    @retried
    async def _record_failure(
        self, group: str, message: AlertMessage, error: AlertDeliveryError
    ) -> None:
        fleet = self._store.fleet()
        record = fleet.alert_groups.get(group)
        if record is None:
            return
        after, event = undelivered(
            record,
            message,
            str(error),
            now=self._clock.now(),
            refused=error.refused,
            retry_after=error.retry_after,
            # Jitter keeps the messages of one channel from returning together.
            jitter=self._entropy.uniform(0.8, 1.0),
        )
        events = () if event is None else (event,)
        change = Change(alert_groups=[after], events=events)
        await self._store.commit(change, based_on=fleet.revision)
        self._deliveries.add(channel=record.channel, result=ERROR)
        log.warning("alert.undelivered", channel=record.channel, error=str(error))


async def _send_checked(channel: AlertChannel, message: AlertMessage) -> str:
    answer: object = await channel.send(message)
    if not isinstance(answer, str):
        raise TypeError(f"send returned {type(answer).__name__}, which is no text")
    return answer


def count_deliveries(metrics: Metrics) -> MetricCounter:
    """Return the counter of attempts to send a message."""
    return metrics.counter(
        "navarch_alert_deliveries_total",
        "Attempts to send an alert by channel and result: ok or error.",
        labels=("channel", "result"),
    )


def _key(group: str) -> str:
    return f"alert/{group}"
