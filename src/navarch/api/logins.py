"""Failed logins: counted, logged and slowed by peer."""

from collections import OrderedDict, deque
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

import structlog

from navarch.ports.clock import Clock
from navarch.ports.metrics import Metrics

AT_ONCE_MAX = 5
"""Failed logins of a peer within `WINDOW_S` that are answered at once, such as a person's typos."""
WINDOW_S = 60.0
DELAY_S = 1.0
"""How long the answer to a further one takes."""
WAITING_MAX = 64
"""Delayed answers to one peer; more would hold memory."""
PEERS_MAX = 4096
"""Peers with recent failures. The one whose last failure is the oldest makes room."""
TOO_MANY = "too many failed logins from this address at once; try again later"

log = structlog.get_logger(__name__)


class _Peer:
    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=AT_ONCE_MAX)
        self.waiting = 0
        self.unlogged = 0
        self.logged_at = -WINDOW_S


class FailedLogins:
    """Delays the answers to failed logins, and to nothing else.

    Valid credentials are always accepted at once: behind a proxy all callers have one address, and
    one of them must not be able to lock out the others. What makes guessing hopeless is the length
    of a token.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._failed = metrics.counter(
            "navarch_failed_logins_total",
            "Requests without valid credentials, by protocol and reason: missing or wrong.",
            labels=("protocol", "reason"),
        )

    def begin(self, protocol: str) -> None:
        """Begin the series of a protocol: one that begins at one hides its first increase."""
        for reason in ("missing", "wrong"):
            self._failed.add(0, protocol=protocol, reason=reason)

    async def note(self, protocol: str, address: str, *, wrong: bool) -> bool:
        """Record a failed login; return once it may be answered, False if it is one too many.

        Without any credentials it is not `wrong` but missing.
        """
        reason = "wrong" if wrong else "missing"
        self._failed.add(protocol=protocol, reason=reason)
        peer = self._peer(peer_name(address))
        now = self._clock.monotonic()
        peer.unlogged += 1
        if now - peer.logged_at >= WINDOW_S:
            log.warning(
                "login.failed",
                peer=peer_name(address),
                protocol=protocol,
                reason=reason,
                failures=peer.unlogged,
            )
            peer.logged_at, peer.unlogged = now, 0
        if not wrong:
            return True
        is_slow = len(peer.recent) == AT_ONCE_MAX and now - peer.recent[0] < WINDOW_S
        peer.recent.append(now)
        if not is_slow:
            return True
        if peer.waiting >= WAITING_MAX:
            return False
        peer.waiting += 1
        try:
            await self._clock.sleep(DELAY_S)
        finally:
            peer.waiting -= 1
        return True

    def _peer(self, name: str) -> _Peer:
        peer = self._peers.setdefault(name, _Peer())
        self._peers.move_to_end(name)
        if len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)
        return peer


@lru_cache(maxsize=PEERS_MAX)
def peer_name(address: str) -> str:
    """Return the name of a peer: its IPv4 address, or the first 64 bits of its IPv6 address.

    `address` is an IP address, or one as gRPC writes it: `ipv4:10.0.0.7:4711`,
    `ipv6:%5B::1%5D:4711`.
    """
    text = unquote(address)
    if text.startswith(("ipv4:", "ipv6:")):
        text = text[5:].rpartition(":")[0].strip("[]")
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return text[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    # One machine can use all addresses of its network.
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
