"""A workload system that receives notifications over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from navarch.core.errors import NotifierError
from navarch.core.ids import NodeId
from navarch.http.blocking import request
from navarch.http.message import HttpError
from navarch.ports.clock import Clock, Offload

ERROR_CHARACTERS_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUrls:
    """The URL of each notification. A notification without a URL is not sent."""

    cordon: str = ""
    uncordon: str = ""
    drain: str = ""
    drain_status: str = ""
    timeout: timedelta = timedelta(seconds=30)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class WebhookWorkloads:
    """Posts changes of a node, and queries whether it is drained."""

    name = "webhook"

    def __init__(self, clock: Clock, offload: Offload, urls: WebhookUrls) -> None:
        self._clock = clock
        self._offload = offload
        self._urls = urls

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Report that no new work may start on `node`."""
        await self._post(self._urls.cordon, "cordon", node, reason)

    async def uncordon(self, node: NodeId) -> None:
        """Report that work may start on `node` again."""
        await self._post(self._urls.uncordon, "uncordon", node, "")

    async def drain(self, node: NodeId, reason: str) -> None:
        """Request that the work on `node` moves elsewhere."""
        await self._post(self._urls.drain, "drain", node, reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether `node` is empty; True if there is no URL to query."""
        if not self._urls.drain_status:
            return True
        parts = urlsplit(self._urls.drain_status)
        query = "&".join(filter(None, (parts.query, urlencode({"node_id": node}))))
        url = urlunsplit(parts._replace(query=query))
        body = await self._offload.run(lambda: self._send("GET", url))
        try:
            return msgspec.json.decode(body, type=_DrainStatus).drained
        except msgspec.MsgspecError as error:
            raise NotifierError(
                f"webhook: the response of {url} does not state whether the node is drained"
            ) from error

    async def _post(self, url: str, event: str, node: NodeId, reason: str) -> None:
        if not url:
            return
        content = {"event": event, "node_id": node, "timestamp": self._clock.now()}
        if reason:
            content["reason"] = reason
        body = msgspec.json.encode(content)
        await self._offload.run(lambda: self._send("POST", url, body))

    def _send(self, method: str, url: str, body: bytes | None = None) -> bytes:
        headers = {"User-Agent": "navarch", **self._urls.headers}
        if body is not None:
            headers = {"Content-Type": "application/json", **headers}
        timeout_s = self._urls.timeout.total_seconds()
        try:
            response = request(
                method, url, headers=headers, body=body, timeout_s=timeout_s, use_proxy=True
            )
        except HttpError as error:
            raise NotifierError(f"webhook: {error}") from error
        if 300 <= response.status < 400:
            location = response.headers.get("location", "another URL")
            raise NotifierError(f"webhook: {url} has moved to {location}; configure that URL")
        if response.status >= 400:
            text = response.body.decode(errors="replace")[:ERROR_CHARACTERS_MAX]
            raise NotifierError(f"webhook returned {response.status}: {text}")
        return response.body


class _DrainStatus(msgspec.Struct):
    drained: bool
    message: str = ""
