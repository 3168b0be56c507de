"""What AWS tells a queue: EventBridge's events about spot machines.

A message stays in the queue for as long as what it announces stands. Each time it is received it
is hidden for a moment and then comes again, so a new process hears everything that the one
before it had heard, and nothing has to be written down here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from navarch.core.ids import InstanceId
from navarch.core.notice import Notice, NoticeKind
from navarch.ports.clock import Clock
from navarch.ports.provider import Announcement
from navarch.providers.aws.ec2 import HOME, Ec2

HIDDEN = timedelta(seconds=20)
"""How long a message is hidden once it was received. A new process waits so long before its first
word: until then it cannot know what stands."""

LOOK_AGAIN_S = 2.0

AT_ONCE = 10
"""The most messages that one call returns."""

CALLS_MAX = 50
"""Per look: a queue that somebody else's events flood must not keep ours waiting for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What one kind of event announces, and for how long."""

    kind: NoticeKind
    stands: timedelta


EVENTS: Mapping[str, _Known] = {
    # Two minutes, and then the machine is gone.
    "EC2 Spot Instance Interruption Warning": _Known(
        kind=NoticeKind.RECLAIM, stands=timedelta(minutes=10)
    ),
    # A machine at risk, which nobody takes back and which may yet be left alone.
    "EC2 Instance Rebalance Recommendation": _Known(
        kind=NoticeKind.MAINTENANCE, stands=timedelta(hours=24)
    ),
}
"""By EventBridge's `detail-type`. Whatever else is sent to the queue is removed from it."""


class _Detail(msgspec.Struct):
    instance: str = msgspec.field(default="", name="instance-id")
    action: str = msgspec.field(default="", name="instance-action")


class _Event(msgspec.Struct):
    time: datetime
    detail: _Detail
    kind: str = msgspec.field(default="", name="detail-type")
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    announcement: Announcement
    until: datetime
    receipt: str
    """What the message is removed by; each time it is received it has another."""


class EventQueue:
    """One SQS queue that a rule of EventBridge writes to."""

    def __init__(self, clock: Clock, ec2: Ec2, url: str, *, region: str = "") -> None:
        self._clock = clock
        self._ec2 = ec2
        self._url = url
        self._region = _region_of(url) or region or HOME
        self._standing: dict[str, _Standing] = {}
        self._first = True

    async def hear(self) -> list[Announcement]:
        """Return everything that stands, or raise."""
        if self._first:
            await self._hear_what_is_hidden()
            self._first = False
        await self._receive()
        now = self._clock.now()
        for message, standing in list(self._standing.items()):
            if now >= standing.until:
                await self._remove(standing.receipt)
                del self._standing[message]
        return [standing.announcement for standing in self._standing.values()]

    async def _hear_what_is_hidden(self) -> None:
        """Wait until whatever an earlier process has received has come again."""
        deadline = self._clock.monotonic() + HIDDEN.total_seconds()
        while self._clock.monotonic() < deadline:
            await self._receive()
            await self._clock.sleep(LOOK_AGAIN_S)

    async def _receive(self) -> None:
        for _ in range(CALLS_MAX):
            answer = await self._ec2.read(
                self._region,
                "receive_message",
                service="sqs",
                QueueUrl=self._url,
                MaxNumberOfMessages=AT_ONCE,
                VisibilityTimeout=int(HIDDEN.total_seconds()),
                # A moment's wait asks all of SQS's servers, and not only some.
                WaitTimeSeconds=1,
            )
            messages = answer.get("Messages", ())
            for message in messages:
                await self._take(message)
            if len(messages) < AT_ONCE:
                return

    async def _take(self, message: Mapping[str, Any]) -> None:
        found = list(read_event(message["Body"]))
        if not found:
            await self._remove(message["ReceiptHandle"])
            return
        announcement, until = found[0]
        self._standing[message["MessageId"]] = _Standing(
            announcement=announcement, until=until, receipt=message["ReceiptHandle"]
        )

    async def _remove(self, receipt: str) -> None:
        await self._ec2.read(
            self._region,
            "delete_message",
            service="sqs",
            QueueUrl=self._url,
            ReceiptHandle=receipt,
        )


def read_event(body: str) -> Iterator[tuple[Announcement, datetime]]:
    """Yield what a message announces and until when it stands; nothing if it is not for us."""
    try:
        event = msgspec.json.decode(body, type=_Event)
    except msgspec.DecodeError:
        return
    known = EVENTS.get(event.kind)
    if known is None or event.source != "aws.ec2" or not event.detail.instance:
        return
    what = f"{event.kind} at {event.time:%Y-%m-%d %H:%M:%S} UTC"
    reason = f"{what}: {event.detail.action}" if event.detail.action else what
    yield (
        Announcement(
            instance=InstanceId(event.detail.instance),
            notice=Notice(kind=known.kind, reason=reason),
        ),
        event.time + known.stands,
    )


def _region_of(url: str) -> str:
    found = re.search(r"//sqs\.([a-z0-9-]+)\.amazonaws\.", url)
    return found[1] if found else ""
