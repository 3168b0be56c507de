"""Alert messages as text."""

from navarch.core.alert import Alert, AlertMessage

ALERTS_SHOWN = 20
"""How many alerts a text describes; of the others it states the number."""


def describe(message: AlertMessage) -> list[str]:
    """Return a line for each alert, those that fire and are worst first."""
    ordered = sorted(message.alerts, key=lambda x: (not x.firing, -x.severity.rank))
    lines = [_line(alert) for alert in ordered[:ALERTS_SHOWN]]
    if len(ordered) > ALERTS_SHOWN:
        lines.append(f"... and {len(ordered) - ALERTS_SHOWN} more: navarch alert list")
    return lines


def shorten(text: str, most: int) -> str:
    """Return `text`, cut to `most` characters if it is longer."""
    return text if len(text) <= most else text[: most - 3] + "..."


def one_line(text: str) -> str:
    """Return `text` without line breaks and other characters that cannot be printed."""
    return " ".join("".join(x if x.isprintable() else " " for x in text).split())


def _line(alert: Alert) -> str:
    at = alert.began_at or alert.seen_at
    times = f"since {at:%Y-%m-%d %H:%M} UTC"
    if alert.resolved_at is not None:
        times = f"resolved {alert.resolved_at:%Y-%m-%d %H:%M} UTC"
    remedy = f"; next: {alert.remedy}" if alert.remedy and alert.firing else ""
    return f"{alert.severity} {alert.subject}: {alert.summary} ({times}){remedy}"
