"""A leader believes what a replica has signed about the client, and nothing that others write."""

import asyncio
import json

from tests.support.http_connection import HttpConnection, connections_closed
from tests.support.local_api import LocalApi, build_local_api

from navarch.api.auth import ClientCertificate
from navarch.api.forward.origin import HEADER, SKEW_MAX_S, Origin, Seal
from navarch.api.http.app import ORIGIN, HttpApp, credentials_of
from navarch.api.http.direct import RememberedHead
from navarch.api.http.exchange import PEER_CERTIFICATE, Scope
from navarch.api.http.server import HeartbeatProtocol
from navarch.clock import SystemClock

AHEAD = Seal(b"s" * 32, lambda: SystemClock().now().timestamp() + SKEW_MAX_S + 5)
SEAL = Seal(b"s" * 32, lambda: SystemClock().now().timestamp())
ANN = ClientCertificate(common_name="ann")
REPLICA = {"subject": ((("commonName", "replica"),),)}
PATH = b"/v1/agent/heartbeat"


def leader() -> LocalApi:
    local = build_local_api()
    local.app._seal = SEAL
    return local


def a_request(app: HttpApp, *shown: bytes) -> Scope:
    """Return a request as the application continues with it."""
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "raw_path": PATH,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *((HEADER, each) for each in shown)],
        "client": ("10.0.0.9", 4711),
        PEER_CERTIFICATE: REPLICA,
    }
    return app._with_origin(scope)


def test_the_client_of_a_forwarded_request_is_the_one_that_the_replica_has_seen() -> None:
    signed = SEAL.sign(b"POST", PATH, Origin(peer="198.51.100.7", certificate=ANN))
    scope = a_request(leader().app, signed)
    assert scope["client"] == ("198.51.100.7", 0)
    assert credentials_of(scope).certificate == ANN


def test_the_certificate_of_a_replica_is_never_that_of_a_client_without_one() -> None:
    scope = a_request(leader().app, SEAL.sign(b"POST", PATH, Origin(peer="198.51.100.7")))
    assert credentials_of(scope).certificate is None


def test_what_no_replica_has_signed_is_dropped() -> None:
    stranger = Seal(b"x" * 32, lambda: SystemClock().now().timestamp())
    forged = stranger.sign(b"POST", PATH, Origin(peer="1.2.3.4", certificate=ANN))
    other_path = SEAL.sign(b"POST", b"/v1/nodes", Origin(peer="1.2.3.4", certificate=ANN))
    valid = SEAL.sign(b"POST", PATH, Origin(peer="1.2.3.4", certificate=ANN))
    for shown in ((forged,), (other_path,), (b"",), (valid, forged), (forged, valid)):
        scope = a_request(leader().app, *shown)
        assert ORIGIN not in scope
        assert scope["client"] == ("10.0.0.9", 4711)
        assert HEADER not in dict(scope["headers"])
        certificate = credentials_of(scope).certificate
        assert certificate is not None
        assert certificate.common_name == "replica", "that of the connection"


def send(*heads: bytes) -> tuple[list[bytes], HttpConnection]:
    """Return the reply to each heartbeat on one connection, and the connection."""

    async def main() -> tuple[list[bytes], HttpConnection]:
        local = leader()
        await local.register("gpu-1")
        connection = HttpConnection(local.app, direct=True)
        body = json.dumps({"node": "gpu-1", "metrics": {}}).encode()
        replies = []
        for head in heads:
            lines = (
                b"POST " + PATH + b" HTTP/1.1",
                b"host: localhost",
                b"content-type: application/json",
                b"content-length: %d" % len(body),
                *([head] if head else []),
            )
            replies.append(await connection.send(b"\r\n".join((*lines, b"", body))))
        return replies, connection

    with connections_closed():
        return asyncio.run(main())


def head_of(connection: HttpConnection) -> RememberedHead | None:
    protocol = connection.protocol
    assert isinstance(protocol, HeartbeatProtocol)
    return protocol._head


def test_a_signature_that_is_too_old_is_refused_with_the_reason() -> None:
    signed = AHEAD.sign(b"POST", PATH, Origin(peer="198.51.100.7"))
    (reply,), _ = send(HEADER + b": " + signed)
    assert reply.startswith(b"HTTP/1.1 503")
    assert b"synchronize the clocks" in reply


def test_the_head_of_a_forwarded_heartbeat_is_not_remembered() -> None:
    """A signature holds for one request and a short time; a remembered head would outlive it."""
    plain, remembered = send(b"", b"")
    assert [each[:12] for each in plain] == [b"HTTP/1.1 200"] * 2
    assert head_of(remembered) is not None
    signed = HEADER + b": " + SEAL.sign(b"POST", PATH, Origin(peer="198.51.100.7"))
    replies, connection = send(signed, signed)
    assert [each[:12] for each in replies] == [b"HTTP/1.1 200"] * 2
    assert head_of(connection) is None
