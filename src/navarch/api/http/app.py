"""The ASGI application: JSON API, packed heartbeats, the Go system's protocol, and probes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from navarch.api.auth import (
    AUTHORIZATION,
    REALM,
    UNAUTHORIZED,
    Authenticator,
    Credentials,
    Identity,
    headers_in,
    identify,
    requires_credentials,
)
from navarch.api.calls import HTTP, ApiMetrics
from navarch.api.connect.handler import PREFIX, ConnectHandler
from navarch.api.connect.methods import ReferenceMethods
from navarch.api.forward.origin import HEADER as FORWARDED
from navarch.api.forward.origin import Origin, Seal, StaleError
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.agents import AgentRoutes
from navarch.api.http.direct import RememberedHead, remember_head
from navarch.api.http.exchange import (
    CLOSE,
    PEER_CERTIFICATE,
    TEXT,
    BodyRoom,
    GoneError,
    Receive,
    Refusal,
    Reply,
    Request,
    Scope,
    Send,
    check_host,
    error_reply,
    read_body,
    send_reply,
    target_of,
)
from navarch.api.http.fleet import fleet_routes
from navarch.api.http.heartbeats import HeartbeatCall, HeartbeatCalls
from navarch.api.http.openapi import render_openapi
from navarch.api.http.route import Route, Router, Streamer
from navarch.api.http.scrape import Scrapes
from navarch.api.large_requests import LARGE_BYTES
from navarch.api.logins import TOO_MANY, peer_name
from navarch.api.tls import certificate_of
from navarch.core.access import acting_as, permitted, scope_of
from navarch.core.errors import InvalidError, UnauthenticatedError
from navarch.core.limits import REQUEST_BYTES
from navarch.core.version import VERSION
from navarch.ports.agents import AgentApi
from navarch.ports.api import DetailedFleet
from navarch.ports.clock import Clock, Entropy
from navarch.ports.metrics import NoMetrics
from navarch.wire.fleet import INTERNAL, UNAVAILABLE, code_of, text_of

AGENT_PREFIX = "/v1/agent/"
OPENAPI = "/openapi.json"
PROBES = ("/healthz", "/readyz", "/metrics")
"""Paths that need no token, unless the configuration protects the metrics."""
BUNDLES = "/agent/"
"""The path of agent bundles. A new machine has no token that it could show, and each is public
and known by its hash."""

ORIGIN = "navarch.origin"
"""The entry of a request's scope with its client, if another replica has forwarded it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds on one request."""

    body_bytes_max: int = REQUEST_BYTES.most
    answer_within: timedelta = timedelta(seconds=30)


def build_http_app(
    clock: Clock,
    entropy: Entropy,
    fleet: DetailedFleet,
    agents: AgentApi,
    *,
    auth: Authenticator,
    desk: HeartbeatDesk,
    metrics: Callable[[], Iterator[bytes]],
    ready: Callable[[], Awaitable[str | None]] | None = None,
    limits: HttpLimits | None = None,
    calls: ApiMetrics | None = None,
    link: str = "",
    bundle: Callable[[str], bytes | None] = lambda _: None,
    public_metrics: Callable[[], bool] = lambda: True,
    routes: Iterable[Route] = (),
    seal: Seal | None = None,
) -> "HttpApp":
    """Return the ASGI application, with `routes` beside those of the fleet and of agents.

    `ready` returns what is not ready yet, or None. `metrics` returns the reply to a scrape, in
    slices. `desk` receives packed heartbeats; the caller runs it. `link` names the listener, for
    the nodes that register at it. `bundle` returns the agent bundle with a hash, `public_metrics`
    whether a scrape needs no token. `seal` recognizes what other replicas forward.
    """
    calls = calls or ApiMetrics(clock, NoMetrics())
    all_routes = [
        *fleet_routes(fleet),
        *AgentRoutes(agents, link=link).routes(),
        *routes,
    ]
    for route in all_routes:
        if route.handle is not None:
            calls.method(HTTP, route.name)
    return HttpApp(
        clock,
        router=Router(all_routes),
        connect=ConnectHandler(ReferenceMethods(clock, entropy, fleet, agents, link=link), calls),
        auth=auth,
        heartbeats=HeartbeatCalls(desk, calls),
        metrics=metrics,
        ready=ready or _is_ready,
        bundle=bundle,
        public_metrics=public_metrics,
        limits=limits or HttpLimits(),
        calls=calls,
        seal=seal,
    )


async def _is_ready() -> None:
    """Report that nothing is missing."""


class HttpApp:
    """One ASGI application. Every request gets a response, and none contains a traceback."""

    def __init__(
        self,
        clock: Clock,
        *,
        router: Router,
        connect: ConnectHandler,
        auth: Authenticator,
        heartbeats: HeartbeatCalls,
        metrics: Callable[[], Iterator[bytes]],
        ready: Callable[[], Awaitable[str | None]],
        bundle: Callable[[str], bytes | None],
        public_metrics: Callable[[], bool],
        limits: HttpLimits,
        calls: ApiMetrics,
        seal: Seal | None = None,
    ) -> None:
        self._seal = seal
        self._calls = calls
        self._router = router
        self.routes = router.routes
        self._connect = connect
        self._auth = auth
        self._heartbeats = heartbeats
        self._ready = ready
        self._bundle = bundle
        self._public_metrics = public_metrics
        self._body_bytes_max = limits.body_bytes_max
        self._answer_within_s = limits.answer_within.total_seconds()
        self._scrapes = Scrapes(clock, metrics, within_s=self._answer_within_s)
        self._bodies = BodyRoom()
        self._closing = asyncio.Event()
        document = render_openapi(router.routes, version=VERSION)
        self._openapi = Reply(body=msgspec.json.encode(document))

    def close(self) -> None:
        """End the streamed replies."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await _serve_lifespan(scope, receive, send)
            return
        try:
            scope = self._with_origin(scope)
            if not requires_credentials(self._auth):
                # The probes too: without a token the server listens on loopback only, where
                # a kubelet that probes the pod's address cannot reach it anyway.
                check_host(scope)
            call = self._heartbeats.find(scope)
            if call is None:
                reply = await self._answer(scope, receive, send)
            else:
                reply = await self._answer_heartbeat(call, scope, receive)
        except GoneError:
            return
        except Exception as error:  # noqa: BLE001 - the last line of defence: reported and logged
            if isinstance(error, UnauthenticatedError):
                error = await self._slowed(error, scope)
            reply = _reply_to(error, scope)
        if reply is not None:
            await send_reply(send, reply, head_only=scope["method"] == "HEAD")

    def _with_origin(self, scope: Scope) -> Scope:
        """Return the request with the client that a replica has received it from.

        A header that no replica has signed is dropped: anyone can write it.
        """
        shown = [value for name, value in scope["headers"] if name == FORWARDED]
        if not shown:
            return scope
        headers = [(name, value) for name, value in scope["headers"] if name != FORWARDED]
        scope = {**scope, "headers": headers}
        if self._seal is None or len(shown) > 1:
            return scope
        try:
            found = self._seal.read(scope["method"].encode(), target_of(scope), shown[0])
        except StaleError as error:
            raise Refusal(503, UNAVAILABLE.name, str(error)) from error
        if found is None:
            return scope
        return {**scope, "client": (found.peer, 0), ORIGIN: found}

    async def _slowed(self, error: UnauthenticatedError, scope: Scope) -> Exception:
        """Return what to answer to a failed login, once it may be answered."""
        address = _address(scope)
        has_credentials = any(name == AUTHORIZATION for name, _ in scope["headers"])
        if await self._calls.logins.note(HTTP, address, wrong=has_credentials):
            return error
        # An agent repeats the call. It would drop a report that is refused as too much.
        return Refusal(503, UNAVAILABLE.name, TOO_MANY, headers=((b"retry-after", b"1"), *CLOSE))

    def remember(self, data: bytes, scope: Scope) -> RememberedHead | None:
        """Return the head of the one request in `data` if it is a heartbeat, for `answer_again`."""
        call = self._heartbeats.find(scope)
        # What a replica has signed holds for one request, and for a short time.
        is_forwarded = any(name == FORWARDED for name, _ in scope["headers"])
        if call is None or call.is_batch or is_forwarded:
            return None
        try:
            return remember_head(data, scope, call, credentials_of(scope))
        except UnauthenticatedError:
            return None  # Two credentials.

    def answer_again(self, head: RememberedHead, body: bytes) -> Reply | None:
        """Return the reply to another heartbeat with the same head, checked like the first.

        Nothing that was decided about the first is used: its credentials are authenticated again.
        Returns None for one to which `__call__` replies, such as one that is not let in: only there
        are failed logins slowed, and large requests put in turn.
        """
        if len(body) >= LARGE_BYTES or len(body) > self._body_bytes_max:
            return None
        try:
            if not head.is_local and not requires_credentials(self._auth):
                return None
            identity = self._admit(head.credentials)
            scope_of(identity, "heartbeat")
        except Exception:  # noqa: BLE001 - raised again in `__call__`, which reports it
            return None
        try:
            with acting_as(identity):
                return self._heartbeats.answer(head.call, head.credentials.headers, body)
        except Exception as error:  # noqa: BLE001 - the last line of defence: reported and logged
            return _reply_to(error, {"method": "POST", "path": head.call.path})

    async def _answer_heartbeat(self, call: HeartbeatCall, scope: Scope, receive: Receive) -> Reply:
        credentials = credentials_of(scope)
        with acting_as(self._admit(credentials)):
            # Before the body is read: a caller without the right to call costs nothing.
            permitted("heartbeat")
            # However small a batch is, it may hold thousands.
            body = await self._body(scope, receive, weight=LARGE_BYTES if call.is_batch else 0)
            return self._heartbeats.answer(call, credentials.headers, body)

    def _admit(self, credentials: Credentials) -> Identity:
        """Return the caller; raise UnauthenticatedError or Refusal if it may not make any call."""
        identity = identify(self._auth, credentials)
        # A browser sends the origin of a page of another site, which made it send the request.
        headers = credentials.headers
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise Refusal(403, "permission_denied", "requests from other sites are not allowed")
        return identity

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        path = scope["raw_path"].decode("ascii")
        if path in PROBES:
            return await self._probe(scope, path, send)
        if path.startswith(BUNDLES):
            return self._send_bundle(scope["method"], path.removeprefix(BUNDLES))
        credentials = credentials_of(scope)
        identity = self._admit(credentials)
        headers = credentials.headers
        with acting_as(identity, lambda: identify(self._auth, credentials)):
            return await self._answer_caller(path, headers, scope, receive, send)

    async def _answer_caller(
        self,
        path: str,
        headers: Mapping[bytes, bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> Reply | None:
        """Return the reply to an authenticated request; None if it was sent already."""
        if path == OPENAPI:
            permitted("read_openapi")
            return self._openapi
        if path.startswith(PREFIX):
            body = await self._body(scope, receive)
            request = Request(method=scope["method"], headers=headers, body=body)
            async with asyncio.timeout(self._answer_within_s):
                return await self._connect.answer(path.removeprefix(PREFIX), request)
        route, names = self._router.find(scope["method"], path)
        # Before the body is read: a caller without the right to call costs nothing.
        permitted(route.operation)
        request = Request(
            method=scope["method"],
            headers=headers,
            # A watching client only sends its disconnect.
            body=b"" if route.stream else await self._body(scope, receive),
            query_string=scope["query_string"],
            names=names,
        )
        if route.stream is not None:
            await _stream(route.stream, request, receive, send, self._closing)
            return None
        assert route.handle is not None, route.path
        if route.query is None and request.query_string:
            raise InvalidError("this call takes no query parameters; send the values in the body")
        with self._calls.measure(HTTP, route.name):
            async with asyncio.timeout(self._answer_within_s):
                value = await route.handle(request)
        if value is None:
            return Reply(body=b"", status=204)
        return Reply(body=msgspec.json.encode(value))

    async def _body(self, scope: Scope, receive: Receive, *, weight: int = 0) -> bytes:
        """Return the body, once a request of its size, or of `weight` bytes, may begin."""
        peer = peer_name(_address(scope))
        size_max = self._body_bytes_max
        body = await read_body(receive, size_max=size_max, room=self._bodies, peer=peer)
        await self._calls.large.enter(max(len(body), weight))
        return body

    def _send_bundle(self, method: str, sha256: str) -> Reply:
        _only_get(method)
        content = self._bundle(sha256)
        if content is None:
            raise Refusal(404, "not_found", "this server has no agent bundle with that hash")
        return Reply(body=content, content_type=b"application/gzip")

    async def _probe(self, scope: Scope, path: str, send: Send) -> Reply | None:
        method = scope["method"]
        _only_get(method)
        if path == "/healthz":
            return Reply(body=b"ok", content_type=TEXT)
        if path == "/readyz":
            missing = await self._ready()
            if missing is not None:
                return Reply(body=missing.encode(), content_type=TEXT, status=503)
            return Reply(body=b"ready", content_type=TEXT)
        if not self._public_metrics():
            # They name every pool and what it costs.
            with acting_as(identify(self._auth, credentials_of(scope))):
                permitted("read_metrics")
        await self._scrapes.send(send, head_only=method == "HEAD")
        return None


def credentials_of(scope: Scope) -> Credentials:
    """Return what a request shows of its caller."""
    origin: Origin | None = scope.get(ORIGIN)
    return Credentials(
        headers=headers_in(scope["headers"]),
        # The certificate of a replica is never that of the client whose request it forwards.
        certificate=(
            certificate_of(scope.get(PEER_CERTIFICATE)) if origin is None else origin.certificate
        ),
    )


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _only_get(method: str) -> None:
    if method not in ("GET", "HEAD"):
        allow = ((b"allow", b"GET, HEAD"),)
        raise Refusal(405, "invalid_argument", f"use GET, not {method}", headers=allow)


async def _serve_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "lifespan":
        return  # A websocket; the server supports none.
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _stream(
    stream: Streamer, request: Request, receive: Receive, send: Send, closing: asyncio.Event
) -> None:
    try:
        await stream(request, receive, send, closing)
    except ExceptionGroup as group:
        # A stream is a group of tasks, and only one of them raises.
        raise group.exceptions[0] from group


def _reply_to(error: Exception, scope: Scope) -> Reply:
    if isinstance(error, UnauthenticatedError):
        challenge = ((b"www-authenticate", REALM.encode()),)
        return Reply(body=UNAUTHORIZED.encode(), content_type=TEXT, status=401, headers=challenge)
    if isinstance(error, Refusal):
        return error_reply(error.status, error.code, error.message, error.headers)
    code = code_of(error)
    if code is INTERNAL:
        log.error("http.failed", method=scope["method"], path=scope["path"], exc_info=error)
    return error_reply(code.http, code.name, text_of(error, code))
