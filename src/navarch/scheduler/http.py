"""Pages that a plugin offers about its session: a request in, a response out, no server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What was asked for."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What to answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


HttpHandler = Callable[[HttpRequest], HttpResponse]
