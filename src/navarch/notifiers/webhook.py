"""Workload systems that are told over HTTP."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from navarch.core.errors import NotifierError
from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.ports.offload import Offload

ANSWER_MAX = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUrls:
    """Where to send what. What is empty is not sent."""

    cordon: str = ""
    uncordon: str = ""
    drain: str = ""
    drain_status: str = ""
    timeout: timedelta = timedelta(seconds=30)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class WebhookWorkloads:
    """Posts what happens to a node, and asks whether it is empty."""

    name = "webhook"

    def __init__(self, clock: Clock, offload: Offload, urls: WebhookUrls) -> None:
        self._clock = clock
        self._offload = offload
        self._urls = urls

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Say that no new work may start on `node`."""
        await self._post(self._urls.cordon, "cordon", node, reason)

    async def uncordon(self, node: NodeId) -> None:
        """Say that work may start on `node` again."""
        await self._post(self._urls.uncordon, "uncordon", node, "")

    async def drain(self, node: NodeId, reason: str) -> None:
        """Ask for the work on `node` to be moved elsewhere."""
        await self._post(self._urls.drain, "drain", node, reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether `node` is empty; it is held to be where nobody can be asked."""
        if not self._urls.drain_status:
            return True
        parts = urllib.parse.urlsplit(self._urls.drain_status)
        query = "&".join(filter(None, (parts.query, urllib.parse.urlencode({"node_id": node}))))
        url = urllib.parse.urlunsplit(parts._replace(query=query))
        answer = await self._offload.run(lambda: self._send(urllib.request.Request(url)))
        try:
            return msgspec.json.decode(answer, type=_DrainStatus).drained
        except msgspec.MsgspecError as error:
            raise NotifierError(f"webhook: {url} does not say whether it is drained") from error

    async def _post(self, url: str, event: str, node: NodeId, reason: str) -> None:
        if not url:
            return
        told = {"event": event, "node_id": node, "timestamp": self._clock.now()}
        if reason:
            told["reason"] = reason
        request = urllib.request.Request(
            url,
            data=msgspec.json.encode(told),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        await self._offload.run(lambda: self._send(request))

    def _send(self, request: urllib.request.Request) -> bytes:
        for name, value in self._urls.headers.items():
            request.add_header(name, value)
        timeout = self._urls.timeout.total_seconds()
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                body: bytes = answer.read(ANSWER_MAX)
                return body
        except urllib.error.HTTPError as error:
            text = error.read(ANSWER_MAX).decode(errors="replace")
            raise NotifierError(f"webhook returned {error.code}: {text}") from error
        except (OSError, ValueError) as error:
            raise NotifierError(f"webhook: {error}") from error


class _DrainStatus(msgspec.Struct):
    drained: bool
    message: str = ""
