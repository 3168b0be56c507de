"""Format ages, durations, prices and statuses, and fit text to a width."""

import unicodedata
from datetime import datetime, timedelta
from decimal import Decimal

import click

from navarch.core.health import Health
from navarch.core.node import InstanceState, NodeStatus, Phase

COLORS = {
    NodeStatus.ACTIVE: "green",
    NodeStatus.CORDONED: "yellow",
    NodeStatus.DRAINING: "yellow",
    NodeStatus.UNHEALTHY: "red",
    NodeStatus.TERMINATED: "bright_black",
    Phase.REQUESTED: "cyan",
    Phase.BOOTING: "cyan",
    Phase.READY: "green",
    Phase.TERMINATING: "yellow",
    Phase.GONE: "bright_black",
    Health.HEALTHY: "green",
    Health.DEGRADED: "yellow",
    Health.UNKNOWN: "bright_black",
    InstanceState.PROVISIONING: "cyan",
    InstanceState.PENDING_REGISTRATION: "cyan",
    InstanceState.RUNNING: "green",
    InstanceState.FAILED: "red",
}


def colored(text: str, color: str | None, *, on: bool) -> str:
    """Return `text` in `color` if `on`."""
    return click.style(text, fg=color) if on and color and text else text


def bold(text: str, *, on: bool) -> str:
    """Return `text` in bold if `on`."""
    return click.style(text, bold=True) if on and text else text


def title(word: str) -> str:
    """Return an enum value in title case: `pending_registration` as Pending Registration."""
    return word.replace("_", " ").title()


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago `since` was, in the largest whole unit; Never for None."""
    return "Never" if since is None else f"{duration(now - since)} ago"


def duration(span: timedelta) -> str:
    """Return a duration in the largest whole unit."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < 86400:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


def exact_duration(span: timedelta) -> str:
    """Return a duration in full, such as `2m30s`."""
    seconds = max(0, int(span.total_seconds()))
    parts = [
        f"{seconds // size % cycle}{unit}"
        for unit, size, cycle in (("d", 86400, 10**6), ("h", 3600, 24), ("m", 60, 60), ("s", 1, 60))
        if seconds // size % cycle
    ]
    return "".join(parts) or "0s"


def timestamp(at: datetime) -> str:
    """Return a time in UTC to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def time_and_age(at: datetime | None, now: datetime) -> str:
    """Return a time in UTC and how long ago it was; nothing for None."""
    return f"{timestamp(at)} UTC ({age(at, now)})" if at else ""


def clock_time(at: datetime, now: datetime) -> str:
    """Return a time of day, with the date unless it is today."""
    return at.strftime("%H:%M:%S") if at.date() == now.date() else timestamp(at)


def price(amount: Decimal) -> str:
    """Return an amount in dollars."""
    return f"${amount:,.2f}"


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def gibibytes(number: float) -> str:
    """Return a number of bytes in GiB."""
    return f"{number / 2**30:.0f} GiB"


def printable(text: str) -> str:
    """Return `text` on one line without control characters, which machines could send."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def display_width(text: str) -> int:
    """Return the number of terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def truncate(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with an ellipsis if it is cut."""
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept) + display_width(character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def wrap_text(text: str, width: int | None, indent: int) -> list[str]:
    """Return `text` in lines that fit `width` columns after `indent`."""
    if width is None or width - indent < 20:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and display_width(lines[-1]) + 1 + display_width(word) > width - indent:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
