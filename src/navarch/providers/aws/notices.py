"""EC2's announcements about machines: maintenance, spot reclaims, ends of capacity blocks."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from navarch.core.ids import InstanceId
from navarch.core.instance import Notice, NoticeKind
from navarch.ports.provider import Announcement

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
