"""Single requests from a thread: errors, limits, proxies."""

import socket

import pytest
from tests.support.http_server import OK, serving

from navarch.http.blocking import request
from navarch.http.message import NoResponseError, NotSentError, Response


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def get(url: str, *, use_proxy: bool = False, timeout_s: float = 5.0) -> Response:
    return request(
        "GET", url, headers={}, timeout_s=timeout_s, body_bytes_max=1000, use_proxy=use_proxy
    )


def test_a_response_has_status_headers_and_body() -> None:
    with serving() as server:
        response = request(
            "POST", f"http://{server.address}/a/b?c=d", headers={"X": "y"}, body=b"z", timeout_s=5.0
        )

    assert (response.status, response.headers["x-kind"], response.body) == (200, "test", b"hi")
    assert server.requests == [
        f"POST /a/b?c=d HTTP/1.1\r\nHost: {server.address}\r\nAccept-Encoding: identity\r\n"
        "Connection: close\r\nX: y\r\nContent-Length: 1\r\n\r\nz".encode()
    ]


def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    with pytest.raises(NotSentError, match=r"127\.0\.0\.1:1 cannot be reached"):
        get("http://127.0.0.1:1/")


def test_a_failed_tls_handshake_means_not_sent() -> None:
    with serving(b"not TLS") as server, pytest.raises(NotSentError, match="cannot be reached"):
        get(f"https://{server.address}/", timeout_s=0.1)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        OK[:5],
        OK[:-1],
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1001,
    ],
)
def test_a_lost_malformed_or_oversized_response_leaves_the_outcome_unknown(reply: bytes) -> None:
    with serving(reply) as server, pytest.raises(NoResponseError):
        get(f"http://{server.address}/")


def test_a_server_that_never_responds_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(NoResponseError, match="did not respond in time"):
            get(f"http://127.0.0.1:{port}/", timeout_s=0.05)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_returned_and_not_followed(status: int) -> None:
    with serving() as elsewhere:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: http://{elsewhere.address}/\r\n\r\n"
        with serving(moved.encode()) as server:
            response = get(f"http://{server.address}/")

    assert (response.status, elsewhere.requests) == (status, [])


@pytest.mark.parametrize("url", ["h", "ftp://h/", "http:///x", "http://h:x/", "http://[::1/"])
def test_a_malformed_url_means_not_sent(url: str) -> None:
    with pytest.raises(NotSentError):
        get(url)


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    with pytest.raises(NotSentError) as caught:
        request("GET", "http://127.0.0.1:1/", headers={"X": "secret\n"}, timeout_s=5.0)

    assert "secret" not in str(caught.value)


def test_the_environments_proxy_receives_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:p%40ss@{proxy.address}")
        response = get("http://example.invalid/x?y", use_proxy=True)

    assert response.body == b"hi"
    assert proxy.requests[0].startswith(
        b"GET http://example.invalid/x?y HTTP/1.1\r\nHost: example.invalid\r\n"
    )
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n" in proxy.requests[0]


def test_a_proxy_is_used_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving() as server:
        assert get(f"http://{server.address}/").body == b"hi"


def test_no_proxy_excludes_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as server:
        assert get(f"http://{server.address}/", use_proxy=True).body == b"hi"


def test_https_passes_a_proxy_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    # The proxy agrees to the tunnel and closes it, so the TLS handshake fails after it.
    with serving(b"HTTP/1.1 200 Connection established\r\n\r\n") as proxy:
        monkeypatch.setenv("https_proxy", f"http://user@{proxy.address}")
        with pytest.raises(NotSentError, match="through proxy"):
            request(
                "GET",
                "https://example.invalid/x",
                headers={"Authorization": "secret"},
                timeout_s=5.0,
                use_proxy=True,
            )

    assert proxy.requests[0].startswith(
        b"CONNECT example.invalid:443 HTTP/1.1\r\nHost: example.invalid:443\r\n"
    )
    assert b"Proxy-Authorization" in proxy.requests[0]
    assert b"secret" not in proxy.requests[0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", "returned status 407"),
        (b"", "proxy .* closed the connection"),
        (b"x\r\n", "proxy .* (closed the connection|sent an invalid)"),
    ],
)
def test_a_proxy_that_refuses_a_tunnel_means_not_sent(
    monkeypatch: pytest.MonkeyPatch, reply: bytes, words: str
) -> None:
    with serving(reply) as proxy:
        monkeypatch.setenv("https_proxy", proxy.address)
        with pytest.raises(NotSentError, match=words):
            get("https://example.invalid/x", use_proxy=True)


@pytest.mark.parametrize("proxy", ["http://", "http://h:x", "http://[::1"])
def test_a_malformed_proxy_is_refused(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)

    with pytest.raises(NotSentError, match="http_proxy is not a URL"):
        get("http://example.invalid/", use_proxy=True)
