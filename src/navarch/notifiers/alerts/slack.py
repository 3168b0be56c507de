"""Slack, through an incoming webhook."""

from datetime import timedelta

import msgspec

from navarch.core.alert import AlertMessage
from navarch.notifiers.alerts.http import ServicePost
from navarch.notifiers.alerts.text import describe, one_line, shorten
from navarch.ports.clock import Clock, Offload

TITLE_MAX, SECTION_MAX = 150, 3000
"""Slack's limits for a header and for the text of a section, in characters."""


class SlackChannel:
    """Posts each message to one Slack channel. A repetition shows twice: Slack recognises none."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        *,
        name: str,
        url: str,
        timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        """`url` is a secret: its holder can post."""
        self.name = name
        self._url = url
        secrets = [url, url.rpartition("/services/")[2], url.rpartition("/")[2]]
        self._post = ServicePost(clock, offload, timeout=timeout, secrets=secrets)

    async def send(self, message: AlertMessage) -> str:
        """Post `message`."""
        return await self._post.send(self._url, msgspec.json.encode(render(message)))


def render(message: AlertMessage) -> dict[str, object]:
    """Return a message with blocks, and a text for notifications."""
    title = one_line(message.title)
    sections: list[str] = [""]
    for line in describe(message):
        entry = shorten(f"• {_escaped(one_line(line))}", SECTION_MAX - 1)
        if len(sections[-1]) + len(entry) >= SECTION_MAX:
            sections.append("")
        sections[-1] += ("\n" if sections[-1] else "") + entry
    footer = f"cluster {message.cluster}, group {message.group}"
    return {
        "text": _escaped(shorten(title, SECTION_MAX // 2)),
        "blocks": [
            {"type": "header", "text": _text("plain_text", shorten(title, TITLE_MAX))},
            *({"type": "section", "text": _text("mrkdwn", each)} for each in sections),
            {"type": "context", "elements": [_text("plain_text", footer)]},
        ],
    }


def _text(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "text": text}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
