"""Connections of a replica to the leader over HTTP/1.1, with its certificate pinned."""

import asyncio
import hashlib
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import httptools

from navarch.api.forward.leaders import Leader, NotForwardedError, UnansweredError

IDLE_S = 30.0
"""How long a connection is kept without a request: less than the leader keeps it, so that no
request meets its end."""
IDLE_MAX = 256
CONNECT_S = 2.0
ANSWER_S = 40.0
"""How long the leader may take to begin its reply: more than it allows itself."""
CHUNK = 2**16

Pairs = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class ClientKey:
    """The certificate that a replica shows to a leader that requires one of every client."""

    cert: Path
    key: Path


def pinned_context(pem: str, shown: ClientKey | None = None) -> ssl.SSLContext:
    """Return the TLS settings of a client that trusts this very certificate and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # It may name any host: what counts is that it is the one in the database.
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=pem)
    context.set_alpn_protocols(["http/1.1"])
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def fingerprint(pem: str) -> str:
    """Return the SHA-256 of a certificate."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def check_pin(peer: ssl.SSLObject, pem: str) -> None:
    """Raise NotForwardedError unless the peer has shown this very certificate.

    A certificate may have signed others, which a handshake would accept as well.
    """
    shown = peer.getpeercert(binary_form=True) or b""
    if hashlib.sha256(shown).hexdigest() != fingerprint(pem):
        raise NotForwardedError("the leader has shown another certificate than the one registered")


class _Reader(asyncio.StreamReader):
    """Counts what has arrived and is not read yet."""

    unread = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Count data that has arrived."""
        self.unread += len(bytes(data))
        super().feed_data(data)

    async def take(self) -> bytes:
        """Return what has arrived; nothing at the end."""
        data = await self.read(CHUNK)
        self.unread -= len(data)
        return data


class Response:
    """The reply to one request: its head, and its body as it arrives."""

    def __init__(self, connection: "_Connection", *, head_only: bool) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = False
        self._connection = connection
        self._head_only = head_only
        self._chunks: deque[bytes] = deque()
        self._complete = False
        self._extra = False
        self._kept = False
        self._parser = httptools.HttpResponseParser(self)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Note a second reply, which nothing asked for."""
        self._extra |= self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        if not self._complete:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Note the status."""
        if not self._complete:
            self.status = self._parser.get_status_code()
            self.begun = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        if not self._complete:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        """Note the end, and whether the leader keeps the connection."""
        self._kept = self._parser.should_keep_alive() and not self._complete
        self._complete = True

    async def begin(self) -> None:
        """Return when the head has arrived; raise UnansweredError if the connection ends before."""
        while not self.begun:
            await self._read()

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body; raise UnansweredError if it is cut off."""
        while not self._head_only:
            while self._chunks:
                yield self._chunks.popleft()
            if self._complete:
                break
            await self._read()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent on its connection."""
        return self._complete and self._kept and not self._extra

    async def _read(self) -> None:
        try:
            data = await self._connection.reader.take()
            if not data:
                raise UnansweredError("the leader closed the connection")
            self._extra |= self._complete
            self._parser.feed_data(data)
        except OSError as error:
            raise UnansweredError(f"the connection to the leader failed: {error}") from error
        except httptools.HttpParserError as error:
            raise UnansweredError(f"the leader's reply cannot be read: {error}") from error


class _Connection:
    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a request may be sent; bytes that nothing asked for would be its reply."""
        return not (self.reader.unread or self.reader.at_eof() or self.writer.is_closing())

    def close(self) -> None:
        self.writer.transport.abort()


class LeaderLink:
    """Sends requests to leaders, each on a connection of its own as long as it lasts."""

    def __init__(self, shown: ClientKey | None = None) -> None:
        self._shown = shown
        self._leader: Leader | None = None
        self._context: ssl.SSLContext | None = None
        self._idle: deque[_Connection] = deque()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def send(self, leader: Leader, head: bytes, body: bytes) -> "Sent":
        """Send a request.

        Raises NotForwardedError if nothing was sent.
        """
        connection = self._reused(leader) or await self._connect(leader)
        connection.writer.write(head + body if len(body) <= CHUNK else head)
        if len(body) > CHUNK:
            connection.writer.write(body)
        return Sent(self, leader, connection, head_only=head.startswith(b"HEAD "))

    def key_pair(self) -> tuple[bytes, bytes] | tuple[None, None]:
        """Return the key and the certificate to show to a leader that requires one."""
        if self._shown is None:
            return None, None
        return self._shown.key.read_bytes(), self._shown.cert.read_bytes()

    async def certificate_names(self, leader: Leader) -> list[str]:
        """Return the names in the leader's certificate, for clients that cannot do without."""
        connection = await self._connect(leader)
        try:
            found: dict[str, Any] = connection.writer.get_extra_info("ssl_object").getpeercert()
        finally:
            connection.close()
        names = [value for _, value in found.get("subjectAltName", ())]
        common = [v for pairs in found.get("subject", ()) for n, v in pairs if n == "commonName"]
        return [*names, *common]

    def keep(self, leader: Leader, connection: _Connection) -> None:
        """Keep a connection for another request."""
        if leader != self._leader or len(self._idle) >= IDLE_MAX:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _reused(self, leader: Leader) -> _Connection | None:
        self._meet(leader)
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    def _meet(self, leader: Leader) -> None:
        """Close the connections to another leader than this one."""
        if leader != self._leader:
            self.close()
            self._leader = leader
            pem = leader.certificate
            self._context = pinned_context(pem, self._shown) if pem else None

    async def _connect(self, leader: Leader) -> _Connection:
        loop = asyncio.get_running_loop()
        host, _, port = leader.http.rpartition(":")
        self._meet(leader)
        context = self._context
        reader = _Reader(limit=CHUNK, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, _ = await loop.create_connection(
                    lambda: protocol, host.strip("[]"), int(port), ssl=context
                )
        except (OSError, TimeoutError, ValueError) as error:
            text = f"cannot connect to the leader at {leader.http}: {error}"
            raise NotForwardedError(text) from error
        if context is not None:
            try:
                check_pin(transport.get_extra_info("ssl_object"), leader.certificate)
            except NotForwardedError:
                transport.abort()
                raise
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class Sent:
    """A request that was sent: its outcome is unknown until its reply begins."""

    def __init__(
        self, link: LeaderLink, leader: Leader, connection: _Connection, *, head_only: bool
    ) -> None:
        self.leader = leader
        self._link = link
        self._connection = connection
        self._response = Response(connection, head_only=head_only)
        self._until: list[asyncio.Future[None]] = []

    def cut_off(self, when: asyncio.Future[None]) -> None:
        """Close the connection `when` that is done, unless the reply is complete before."""
        when.add_done_callback(self._cut)
        self._until.append(when)

    async def answered(self) -> Response:
        """Return the reply once its head is here.

        Raises UnansweredError if the connection ends, or the leader takes too long.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                with suppress(OSError):
                    await self._connection.writer.drain()
                await self._response.begin()
        except TimeoutError as error:
            raise UnansweredError(f"the leader did not answer within {ANSWER_S:.0f} s") from error
        return self._response

    def end(self) -> None:
        """Keep the connection if its reply is complete, or close it."""
        for each in self._until:
            each.remove_done_callback(self._cut)
        if self._response.reusable:
            self._link.keep(self.leader, self._connection)
        else:
            self._connection.close()

    def _cut(self, _: asyncio.Future[None]) -> None:
        self._connection.close()
