"""A replica forwards a request once, repeats only what may be repeated, and mixes up no replies."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.certificates import Authority, needs_openssl

from navarch.api.forward.http import NOT_LEADER, ForwardingApp
from navarch.api.forward.leaders import Held, Leader, Leaders, NotForwardedError
from navarch.api.forward.link import LeaderLink
from navarch.api.forward.origin import HEADER, Origin, Seal
from navarch.api.http.exchange import Scope, Send
from navarch.api.http.front import HttpFront
from navarch.api.http.server import HttpServer, listen
from navarch.clock import SystemClock
from navarch.core.limits import HELD_REQUESTS_PER_PEER
from navarch.ports.metrics import NoMetrics

SEAL = Seal(b"s" * 32, lambda: SystemClock().now().timestamp())
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
SCALE = b"POST /v1/pools/training:scale HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
BEAT = b"POST /v1/agent/heartbeat HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
READ = b"GET /v1/pools?a=%20b HTTP/1.1\r\nHost: a\r\n\r\n"

Answer = Callable[[bytes], bytes | None]
"""Returns the reply to a request; None closes the connection without one."""


class ScriptedLeader:
    """A server that keeps each request and answers as it is told."""

    def __init__(self, *answers: bytes | None, then: bytes | None = OK, together: int = 1) -> None:
        """It answers nothing before that many requests have arrived `together`."""
        self._together = together
        self._arrived = asyncio.Event()
        self.received: list[bytes] = []
        self.asked = asyncio.Event()
        self._answers = list(answers)
        self._then = then
        self.address = ""
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [x for x in head.split(b"\r\n") if x.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split()[1])) if length else b""
                self.received.append(head + body)
                self.asked.set()
                if len(self.received) >= self._together:
                    self._arrived.set()
                await self._arrived.wait()
                answer = self._answers.pop(0) if self._answers else self._then
                if answer is None:
                    return
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


async def _not_mine(_scope: Scope, _send: Send) -> bool:
    return False


class Replica:
    """A replica at a real port, and its leader."""

    def __init__(self, port: int, leaders: Leaders) -> None:
        self.port = port
        self.leaders = leaders
        self._servers: list[asyncio.Server] = []

    async def lead(self, leader: ScriptedLeader, term: int) -> None:
        """Let another process lead from now on."""
        server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
        self._servers.append(server)
        leader.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.leaders.become(
            Leader(name=f"leader-{term}", term=term, http=leader.address, grpc="127.0.0.1:1")
        )

    async def ask(self, request: bytes) -> bytes:
        """Return the whole reply to one request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        try:
            return await reader.read()
        finally:
            writer.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()


@asynccontextmanager
async def replica(*, any_host: bool = True) -> AsyncIterator[Replica]:
    leaders, link = Leaders(), LeaderLink()
    app = ForwardingApp(leaders, SEAL, link, Held(NoMetrics()), probe=_not_mine, any_host=any_host)
    with listen("127.0.0.1", 0) as listener:
        server = HttpServer(
            SystemClock(),
            HttpFront(app),
            listener=listener,
            heartbeat_interval=timedelta(seconds=1),
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            found = Replica(listener.getsockname()[1], leaders)
            try:
                yield found
            finally:
                link.close()
                found.close()
                running.cancel()


def run(story: Callable[[Replica], Awaitable[None]], *, any_host: bool = True) -> None:
    async def main() -> None:
        async with replica(any_host=any_host) as found:
            await story(found)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_request_arrives_whole_and_its_reply_comes_back_unchanged() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader(b"HTTP/1.1 418 Odd\r\nx-odd: 1\r\ncontent-length: 3\r\n\r\nodd")
        await found.lead(leader, 1)
        reply = await found.ask(READ.replace(b"Host: a", b"Host: a\r\nX-Mine: 7\r\nTE: trailers"))
        assert reply.startswith(b"HTTP/1.1 418")
        assert b"\r\nx-odd: 1\r\n" in reply
        assert reply.endswith(b"\r\n\r\nodd")
        (received,) = leader.received
        assert received.startswith(b"GET /v1/pools?a=%20b HTTP/1.1\r\n")
        assert b"\r\nx-mine: 7\r\n" in received
        assert b"\r\nte:" not in received
        assert b"connection" not in received

    run(story)


def test_a_change_that_was_sent_and_not_answered_is_not_sent_again() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader(None)
        await found.lead(leader, 1)
        reply = await found.ask(SCALE)
        assert reply.startswith(b"HTTP/1.1 503")
        assert b"is not known" in reply
        assert b"navarch events" in reply
        assert b"retry-after" not in reply, "a proxy must not repeat it"
        assert len(leader.received) == 1

    run(story)


@pytest.mark.parametrize("request_", [READ, BEAT], ids=["read", "heartbeat"])
def test_what_changes_nothing_more_is_sent_again_to_the_next_leader(request_: bytes) -> None:
    async def story(found: Replica) -> None:
        first, second = ScriptedLeader(then=None), ScriptedLeader()
        await found.lead(first, 1)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(found.ask(request_))
            await first.asked.wait()
            await found.lead(second, 2)
            assert (await asking).endswith(b"ok")
        assert len(second.received) == 1

    run(story)


def test_a_change_is_held_while_none_leads_and_sent_once() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(found.ask(SCALE))
            await asyncio.wait({asking}, timeout=0.1)
            assert not asking.done()
            await found.lead(leader, 1)
            assert (await asking).endswith(b"ok")
        assert len(leader.received) == 1

    run(story)


def test_what_a_former_leader_did_not_carry_out_goes_to_the_next_one() -> None:
    async def story(found: Replica) -> None:
        line = NOT_LEADER[0] + b": " + NOT_LEADER[1]
        refusal = b"HTTP/1.1 503 No\r\n" + line + b"\r\ncontent-length: 0\r\n\r\n"
        first, second = ScriptedLeader(then=refusal), ScriptedLeader()
        await found.lead(first, 1)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(found.ask(SCALE))
            await first.asked.wait()
            await found.lead(second, 2)
            assert (await asking).endswith(b"ok")
        assert len(second.received) == 1

    run(story)


def test_what_another_replica_has_forwarded_is_not_forwarded_again() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        signed = SEAL.sign(b"GET", b"/v1/pools?a=%20b", Origin(peer="10.0.0.9"))
        with_it = READ.replace(b"Host: a", b"Host: a\r\n" + HEADER + b": " + signed)
        reply = await found.ask(with_it)
        assert reply.startswith(b"HTTP/1.1 503")
        assert NOT_LEADER[0] in reply
        assert leader.received == []

    run(story)


def test_the_header_of_a_stranger_is_replaced_by_what_the_replica_has_seen() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        await found.ask(READ.replace(b"Host: a", b"Host: a\r\nNavarch-Forwarded: forged"))
        (received,) = leader.received
        lines = [x for x in received.split(b"\r\n") if x.startswith(HEADER)]
        assert len(lines) == 1
        shown = lines[0].partition(b": ")[2]
        assert SEAL.read(b"GET", b"/v1/pools?a=%20b", shown) == Origin(peer="127.0.0.1")

    run(story)


def test_no_client_can_take_away_the_credentials_of_a_request() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        extra = (
            b"Host: a\r\nAuthorization: Bearer x\r\nX-Hop: 1\r\nConnection: Authorization, X-Hop"
        )
        await found.ask(READ.replace(b"Host: a", extra))
        assert b"authorization: Bearer x" in leader.received[0]
        assert b"x-hop" not in leader.received[0]

    run(story)


def test_bytes_that_nothing_asked_for_answer_no_later_request() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader(OK + OK.replace(b"ok", b"no"), then=OK)
        await found.lead(leader, 1)
        for _ in range(2):
            assert (await found.ask(READ)).endswith(b"ok")
        assert leader.connections == 2

    run(story)


def test_connections_to_the_leader_are_used_again() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        for _ in range(5):
            assert (await found.ask(SCALE)).endswith(b"ok")
        assert (leader.connections, len(leader.received)) == (1, 5)

    run(story)


def test_once_a_connection_has_ended_none_of_the_others_is_used() -> None:
    """A process that is killed does not close all of its connections at the same moment."""

    async def story(found: Replica) -> None:
        leader = ScriptedLeader(OK, OK, None, together=2)
        await found.lead(leader, 1)
        await asyncio.gather(found.ask(SCALE), found.ask(SCALE))
        assert leader.connections == 2
        assert b"is not known" in await found.ask(SCALE)
        assert (await found.ask(SCALE)).endswith(b"ok")
        assert leader.connections == 3

    run(story)


def test_a_replica_without_a_token_serves_requests_that_name_loopback_only() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        assert (await found.ask(READ)).startswith(b"HTTP/1.1 421")
        assert leader.received == []
        assert (await found.ask(READ.replace(b"Host: a", b"Host: localhost"))).endswith(b"ok")

    run(story, any_host=False)


def test_a_body_over_the_limit_is_refused_by_the_replica() -> None:
    async def story(found: Replica) -> None:
        leader = ScriptedLeader()
        await found.lead(leader, 1)
        large = b"POST /v1/agent/health HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n"
        assert (await found.ask(large + b"x" * 1048577)).startswith(b"HTTP/1.1 413")
        assert leader.received == []

    run(story)


@needs_openssl
def test_a_certificate_that_the_registered_one_has_signed_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    leaf = authority.issue("leaf")
    other = Authority(tmp_path / "other", "other").issue("leaf")
    pems = [path.read_text() for path in (leaf.cert, authority.cert, other.cert)]

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(leaf.cert, leaf.key)
        script = ScriptedLeader()
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        link = LeaderLink()

        async def ask(certificate: str) -> int:
            sent = await link.send(
                Leader(
                    name="leader",
                    term=1,
                    http=address,
                    grpc=address,
                    certificate=certificate,
                ),
                READ,
                b"",
            )
            return (await sent.answered()).status

        assert await ask(pems[0]) == 200
        with pytest.raises(NotForwardedError, match="another certificate"):
            await ask(pems[1])
        with pytest.raises(NotForwardedError, match="cannot connect"):
            await ask(pems[2])
        link.close()
        server.close()
        assert len(script.received) == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_one_request_too_many_of_a_peer_is_refused() -> None:
    async def main() -> None:
        held = Held(NoMetrics())
        holds = [held.hold("10.0.0.7", 1) for _ in range(HELD_REQUESTS_PER_PEER.most)]
        for each in holds:
            each.__enter__()
        with pytest.raises(NotForwardedError, match="too many requests"), held.hold("10.0.0.7", 1):
            pass
        with held.hold("10.0.0.8", 1):
            pass

    asyncio.run(main())
