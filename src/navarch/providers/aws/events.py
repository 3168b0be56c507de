"""EventBridge's events about spot machines, read from an SQS queue.

A message stays in the queue for as long as its announcement is valid. Each receipt hides it for a
moment, then SQS delivers it again. A new process therefore receives every message that its
predecessor received, and nothing has to be stored here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from navarch.core.ids import InstanceId
from navarch.core.instance import Notice, NoticeKind
from navarch.ports.clock import Clock
from navarch.ports.provider import Announcement
from navarch.providers.aws.ec2 import HOME, Ec2

EVENT_CODES = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)

SPOT_CODES = ("marked-for-termination", "marked-for-stop", "marked-for-hibernation")
"""The status of a spot request in the two minutes before EC2 reclaims its machine."""

BLOCK_ENDS = timedelta(minutes=30)
"""EC2 begins to terminate a capacity block's machines this long before the block ends."""

BLOCK_NOTICE = timedelta(minutes=60)
"""Navarch announces the end of a block's machines this long before EC2 begins to terminate them.
EC2 itself gives ten minutes, which is less than replacing a large machine takes."""

VISIBILITY_TIMEOUT = timedelta(seconds=20)
"""How long SQS hides a message after each receipt. A new process collects for this long before it
returns its first announcements: until then its view may be incomplete."""

POLL_INTERVAL_S = 2.0

PAGE = 10
"""The most messages that one call returns."""

CALLS_MAX = 50
"""The most calls per poll: a queue flooded with unrelated events must not block the provider."""


def read_events(statuses: list[Mapping[str, Any]]) -> Iterator[Announcement]:
    """Yield planned maintenance, without completed and cancelled events."""
    for status in statuses:
        for event in status.get("Events", ()):
            text = event.get("Description", "")
            if text.startswith(("[Completed]", "[Canceled]")):
                continue
            due = event.get("NotBefore")
            when = f" from {due:%Y-%m-%d %H:%M} UTC" if due else ""
            yield Announcement(
                instance=InstanceId(status["InstanceId"]),
                notice=Notice(
                    kind=NoticeKind.MAINTENANCE, reason=f"{event['Code']}{when}: {text}".strip(": ")
                ),
            )


def read_spot_requests(requests: list[Mapping[str, Any]]) -> Iterator[Announcement]:
    """Yield the spot machines that EC2 is about to reclaim."""
    for request in requests:
        status = request.get("Status", {})
        if status.get("Code") in SPOT_CODES and request.get("InstanceId"):
            reason = f"{status['Code']}: {status.get('Message', '')}".strip(": ")
            yield Announcement(
                instance=InstanceId(request["InstanceId"]),
                notice=Notice(kind=NoticeKind.RECLAIM, reason=reason),
            )


def ending_blocks(
    reservations: list[Mapping[str, Any]], now: datetime
) -> Iterator[tuple[str, datetime]]:
    """Yield the capacity blocks that end soon, and when EC2 begins to terminate their machines."""
    for reservation in reservations:
        end = reservation.get("EndDate")
        if reservation.get("ReservationType") != "capacity-block" or end is None:
            continue
        if now >= end - BLOCK_ENDS - BLOCK_NOTICE:
            yield reservation["CapacityReservationId"], end - BLOCK_ENDS


def end_of_block(instance: InstanceId, block: str, at: datetime) -> Announcement:
    """Return the announcement that a machine ends with its capacity block."""
    reason = f"capacity block {block}: EC2 terminates its machines from {at:%Y-%m-%d %H:%M} UTC"
    return Announcement(
        instance=instance, notice=Notice(kind=NoticeKind.MAINTENANCE, reason=reason)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventType:
    """What one type of event announces, and for how long."""

    kind: NoticeKind
    valid_for: timedelta


EVENTS: Mapping[str, _EventType] = {
    # EC2 reclaims the machine after two minutes.
    "EC2 Spot Instance Interruption Warning": _EventType(
        kind=NoticeKind.RECLAIM, valid_for=timedelta(minutes=10)
    ),
    # The machine is at risk of a reclaim, which may never come.
    "EC2 Instance Rebalance Recommendation": _EventType(
        kind=NoticeKind.MAINTENANCE, valid_for=timedelta(hours=24)
    ),
}
"""By EventBridge's `detail-type`. Other messages are deleted from the queue."""


class _Detail(msgspec.Struct):
    instance: str = msgspec.field(default="", name="instance-id")
    action: str = msgspec.field(default="", name="instance-action")


class _Event(msgspec.Struct):
    time: datetime
    detail: _Detail
    kind: str = msgspec.field(default="", name="detail-type")
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    announcement: Announcement
    expires_at: datetime
    receipt: str
    """The handle that deletes the message; it changes with each receipt."""


class EventQueue:
    """One SQS queue that an EventBridge rule writes to."""

    def __init__(self, clock: Clock, ec2: Ec2, url: str, *, region: str = "") -> None:
        self._clock = clock
        self._ec2 = ec2
        self._url = url
        self._region = _region_of(url) or region or HOME
        self._messages: dict[str, _Message] = {}
        self._first = True

    async def announcements(self) -> list[Announcement]:
        """Return every valid announcement, or raise."""
        if self._first:
            # Poll until SQS has redelivered every message that an earlier process received.
            deadline = self._clock.monotonic() + VISIBILITY_TIMEOUT.total_seconds()
            while self._clock.monotonic() < deadline:
                await self._receive()
                await self._clock.sleep(POLL_INTERVAL_S)
            self._first = False
        await self._receive()
        now = self._clock.now()
        for name, message in list(self._messages.items()):
            if now >= message.expires_at:
                await self._remove(message.receipt)
                del self._messages[name]
        return [message.announcement for message in self._messages.values()]

    async def _receive(self) -> None:
        for _ in range(CALLS_MAX):
            answer = await self._ec2.read(
                self._region,
                "receive_message",
                service="sqs",
                QueueUrl=self._url,
                MaxNumberOfMessages=PAGE,
                VisibilityTimeout=int(VISIBILITY_TIMEOUT.total_seconds()),
                # Long polling queries all of SQS's servers instead of a sample.
                WaitTimeSeconds=1,
            )
            messages = answer.get("Messages", ())
            for message in messages:
                receipt = message["ReceiptHandle"]
                found = read_event(message["Body"])
                if found is None:
                    await self._remove(receipt)
                    continue
                announcement, expires_at = found
                self._messages[message["MessageId"]] = _Message(
                    announcement=announcement, expires_at=expires_at, receipt=receipt
                )
            if len(messages) < PAGE:
                return

    async def _remove(self, receipt: str) -> None:
        await self._ec2.read(
            self._region,
            "delete_message",
            service="sqs",
            QueueUrl=self._url,
            ReceiptHandle=receipt,
        )


def read_event(body: str) -> tuple[Announcement, datetime] | None:
    """Return a message's announcement and its expiry; None if the message is unrelated."""
    try:
        event = msgspec.json.decode(body, type=_Event)
    except msgspec.DecodeError:
        return None
    known = EVENTS.get(event.kind)
    if known is None or event.source != "aws.ec2" or not event.detail.instance:
        return None
    what = f"{event.kind} at {event.time:%Y-%m-%d %H:%M:%S} UTC"
    reason = f"{what}: {event.detail.action}" if event.detail.action else what
    instance, notice = InstanceId(event.detail.instance), Notice(kind=known.kind, reason=reason)
    return Announcement(instance=instance, notice=notice), event.time + known.valid_for


def _region_of(url: str) -> str:
    found = re.search(r"//sqs\.([a-z0-9-]+)\.amazonaws\.", url)
    return found[1] if found else ""
