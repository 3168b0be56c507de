"""Routes: paths with their handlers and documentation."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from navarch.api.http.exchange import Receive, Refusal, Request, Send
from navarch.core.access import OPERATIONS
from navarch.core.errors import InvalidError
from navarch.ports.api import Query
from navarch.wire.bodies import Items

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[object]]
Streamer = Callable[[Request, Receive, Send, asyncio.Event], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the JSON API. `{name}` in the path matches one segment."""

    operation: str
    """Its row in the table of `core.access`: who may make the call."""
    method: str
    path: str
    summary: str
    handle: Handler | None = None
    stream: Streamer | None = None
    """Takes over the connection, for a streamed reply."""
    reply: Any = None
    """The type of the reply; None if it is empty."""
    body: Any = None
    query: Any = None
    labels: bool = False
    """Whether `?label=name=value` is a filter."""

    def __post_init__(self) -> None:
        assert self.operation in OPERATIONS, f"{self.name}: {self.operation} is no operation"

    @property
    def name(self) -> str:
        """The method and the path, as in the documentation."""
        return f"{self.method} {self.path}"


def get(
    operation: str,
    path: str,
    summary: str,
    handle: Handler,
    reply: object,
    query: type | None = None,
) -> Route:
    """Return an operation that reads; `query` is the type of its parameters."""
    return Route(
        operation=operation,
        method="GET",
        path=path,
        summary=summary,
        handle=handle,
        reply=reply,
        query=query,
        labels=query is Query,
    )


def post(
    operation: str, path: str, summary: str, handle: Handler, reply: object, body: object = None
) -> Route:
    """Return an operation that acts; `body` is the type of its body."""
    return Route(
        operation=operation,
        method="POST",
        path=path,
        summary=summary,
        handle=handle,
        reply=reply,
        body=body,
    )


async def listed(found: Awaitable[Iterable[T]]) -> Items[T]:
    """Return what a call lists as the body of a reply."""
    return Items(items=tuple(await found))


class Router:
    """Finds the route for a method and a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._patterns = [(re.compile(_pattern(route.path)), route) for route in self.routes]

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and the named parts of `path`, which is still percent-encoded.

        Raises Refusal with 404 or 405 if there is none.
        """
        allowed: list[str] = []
        for pattern, route in self._patterns:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if route.method == method:
                return route, {name: _plain(part) for name, part in match.groupdict().items()}
            allowed.append(route.method)
        if not allowed:
            raise Refusal(404, "not_found", "there is nothing at this path; see /openapi.json")
        known = ", ".join(sorted(set(allowed)))
        text = f"{method} is not possible here; use {known}"
        raise Refusal(405, "invalid_argument", text, headers=((b"allow", known.encode()),))


def _pattern(path: str) -> str:
    """Return the expression for a path; a colon inside a name must be percent-encoded."""
    parts = re.split(r"\{(\w+)\}", path)
    expression = ""
    for index, part in enumerate(parts):
        if index % 2 == 0:
            expression += re.escape(part)
            continue
        # Names may contain colons unless an action such as `:drain` follows.
        follows_action = parts[index + 1].startswith(":")
        expression += f"(?P<{part}>{'[^/:]+' if follows_action else '[^/]+'})"
    return expression


def _plain(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidError("the path is not UTF-8") from error
