"""Requests and responses of the pages that plugins serve; there is no server here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request for a page."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response to a request."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


HttpHandler = Callable[[HttpRequest], HttpResponse]
