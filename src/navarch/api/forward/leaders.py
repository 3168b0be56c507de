"""The leader that requests are forwarded to, and the requests that are held while there is none."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from navarch.core.errors import NavarchError
from navarch.core.limits import HELD_BYTES, HELD_REQUESTS, HELD_REQUESTS_PER_PEER
from navarch.ports.metrics import Metrics

HOLD_S = 5.0
"""How long a request is held until a leader answers."""
AGAIN_S = 0.05
"""The pause before the next attempt at the same leader."""
CHANGED_S = 0.5
"""How long a request may still be answered by a leader that was replaced."""

NO_LEADER = "no server leads at the moment; the request was not carried out, send it again"
TOO_MANY_HELD = "too many requests are held until a server leads; send it again later"
UNKNOWN = (
    "the server that leads ended before it answered; whether it carried out the request is not "
    "known. Look first (navarch events, navarch status), and send it again only if it was not"
)
FORWARDED_TWICE = "the server to which this request was forwarded does not lead; send it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The replica that leads."""

    name: str
    term: int
    http: str
    """Its address for HTTP, such as `10.0.0.7:50051`."""
    grpc: str
    certificate: str = ""
    """Its certificate in PEM form if it serves over TLS: nothing else is trusted."""


class NotForwardedError(NavarchError):
    """A request was not sent to any leader; it was not carried out."""


class UnansweredError(NavarchError):
    """A request was sent, and its leader ended before it answered."""


class Leaders:
    """The leader, by the last report that this replica has read."""

    def __init__(self) -> None:
        self.current: Leader | None = None
        self._newest: Leader | None = None
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()
        self.hopeless = False
        """Whether no server can lead soon, so that nothing is held."""

    def become(self, leader: Leader | None) -> None:
        """Forward to another leader from now on, or hold requests until there is one."""
        if leader == self.current:
            return
        self.current = leader
        self._changed.set()
        self._changed = asyncio.Event()
        if leader is None:
            return
        newest, self._newest = self._newest, leader
        if newest is not None and newest.term < leader.term:
            loop, ended = asyncio.get_running_loop(), self._end
            loop.call_later(CHANGED_S, _settle, ended)
            self._end = loop.create_future()

    def end_of(self, leader: Leader) -> asyncio.Future[None]:
        """Return what is done a moment after another server leads than `leader`."""
        if self._newest is not None and self._newest.term == leader.term:
            return self._end
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(CHANGED_S, _settle, ended)
        return ended

    async def next(self, deadline: float, tried: Leader | None) -> Leader:
        """Return the leader, one that was `tried` after a pause; raise NotForwardedError."""
        loop = asyncio.get_running_loop()
        if tried is not None and tried == self.current:
            await self._wait(min(AGAIN_S, deadline - loop.time()))
        while self.current is None:
            if self.hopeless or loop.time() >= deadline:
                raise NotForwardedError(NO_LEADER)
            await self._wait(deadline - loop.time())
        if loop.time() >= deadline:
            raise NotForwardedError(NO_LEADER)
        return self.current

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._changed.wait()
        except TimeoutError:
            pass


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Held:
    """Bounds on the requests that are held, and what is measured of forwarding."""

    def __init__(self, metrics: Metrics) -> None:
        self._by_peer: Counter[str] = Counter()
        self._bytes = 0
        self._ended = asyncio.Event()
        self._forwarded = metrics.counter(
            "navarch_replica_forwarded_total",
            "Requests received while another server leads, by protocol and result: answered by "
            "the leader, refused because none led, or unknown.",
            labels=("protocol", "result"),
        )
        for protocol in ("http", "grpc"):
            for result in ("answered", "refused", "unknown"):
                self._forwarded.add(0, protocol=protocol, result=result)
        metrics.computed_gauge(
            "navarch_replica_held_requests",
            "Requests that this replica holds until a server leads, or until the leader answers.",
            lambda: {(): float(self._by_peer.total())},
        )

    async def empty(self) -> None:
        """Return when no request is held or forwarded."""
        while self._by_peer:
            self._ended.clear()
            await self._ended.wait()

    def count(self, protocol: str, result: str) -> None:
        """Count one request."""
        self._forwarded.add(protocol=protocol, result=result)

    @contextmanager
    def hold(self, peer: str, size: int) -> Iterator[None]:
        """Hold a request of that many bytes; raise NotForwardedError if it is one too many."""
        if (
            self._by_peer.total() >= HELD_REQUESTS.most
            or self._by_peer[peer] >= HELD_REQUESTS_PER_PEER.most
            or self._bytes + size > HELD_BYTES.most
        ):
            raise NotForwardedError(TOO_MANY_HELD)
        self._by_peer[peer] += 1
        self._bytes += size
        try:
            yield
        finally:
            self._by_peer[peer] -= 1
            self._bytes -= size
            if not self._by_peer[peer]:
                del self._by_peer[peer]
            self._ended.set()
