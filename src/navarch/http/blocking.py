"""One request over a connection of its own, for code that runs on a thread.

When a kept connection has died, it is unknown whether the server received the request. With a new
connection for every request, a request that cannot connect was certainly not sent.
"""

import functools
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from navarch.http.exchange import BODY_BYTES_MAX, READ_BYTES, Exchange, new_connection
from navarch.http.message import (
    PORTS,
    Endpoint,
    NoResponseError,
    NotSentError,
    Proxy,
    Request,
    Response,
    environment_proxy,
)


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    timeout_s: float,
    body_bytes_max: int = BODY_BYTES_MAX,
    use_proxy: bool = False,
) -> Response:
    """Return the response, whatever its status; raise NotSentError or NoResponseError.

    `timeout_s` bounds connecting and every wait for data. `use_proxy` uses the proxy that the
    environment sets for the URL (http_proxy, https_proxy, no_proxy).
    """
    endpoint, target = _parse(url)
    proxy = environment_proxy(endpoint) if use_proxy else None
    whole = {
        "Host": endpoint.authority,
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    if proxy is not None and endpoint.scheme == "http":
        target = f"http://{endpoint.authority}{target}"
        whole |= proxy.headers
    message = Request(method=method, target=target, headers=whole, body=body)
    exchange = Exchange(new_connection(), str(endpoint), body_bytes_max=body_bytes_max)
    data = exchange.start(message)
    received = bytearray()
    with _connect(endpoint, proxy, timeout_s) as connection:
        try:
            connection.sendall(data)
            while not exchange.complete:
                received += exchange.receive(connection.recv(READ_BYTES))
        except OSError as error:
            raise exchange.lost(error) from error
    return Response(status=exchange.status, headers=exchange.headers, body=bytes(received))


def _parse(url: str) -> tuple[Endpoint, str]:
    """Return the server of a URL, and the target of a request for it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotSentError(f"not a URL: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname:
        raise NotSentError(f"not an http or https URL: {parts.scheme}://{parts.hostname or ''}")
    endpoint = Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else PORTS[parts.scheme],
    )
    path = parts.path or "/"
    return endpoint, f"{path}?{parts.query}" if parts.query else path


def _connect(endpoint: Endpoint, proxy: Proxy | None, timeout_s: float) -> socket.socket:
    host, port = (proxy.host, proxy.port) if proxy else (endpoint.host, endpoint.port)
    try:
        connection = socket.create_connection((host, port), timeout=timeout_s)
    except (OSError, UnicodeError, OverflowError) as error:
        raise _unreachable(endpoint, proxy, error) from error
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if endpoint.scheme == "http":
            return connection
        if proxy is not None:
            _open_tunnel(connection, endpoint, proxy)
        return _tls().wrap_socket(connection, server_hostname=endpoint.host)
    except (OSError, UnicodeError) as error:
        connection.close()
        raise _unreachable(endpoint, proxy, error) from error
    except BaseException:
        connection.close()
        raise


def _open_tunnel(connection: socket.socket, endpoint: Endpoint, proxy: Proxy) -> None:
    """Make the proxy connect to `endpoint` and pass bytes on from then on."""
    authority = f"{endpoint.host_in_url}:{endpoint.port}"
    exchange = Exchange(new_connection(), f"proxy {proxy.host}:{proxy.port}")
    message = Request(
        method="CONNECT", target=authority, headers={"Host": authority, **proxy.headers}
    )
    try:
        connection.sendall(exchange.start(message))
        while not exchange.status:
            exchange.receive(connection.recv(READ_BYTES))
    except NoResponseError as error:
        raise NotSentError(str(error)) from error
    if not 200 <= exchange.status < 300:
        raise NotSentError(f"{endpoint}: {exchange.peer} returned status {exchange.status}")


def _unreachable(endpoint: Endpoint, proxy: Proxy | None, error: Exception) -> NotSentError:
    through = f" through proxy {proxy.host}:{proxy.port}" if proxy else ""
    reason = str(error) or type(error).__name__
    return NotSentError(f"{endpoint} cannot be reached{through}: {reason}")


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
