"""Lists in parts: filtered, ordered, and continued where the last part ended."""

import base64
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from navarch.core.errors import InvalidError
from navarch.ports.api import PAGE_SIZE_MAX, InstanceView, NodeView, Page, Query

T = TypeVar("T")

_NODE_ORDERS: dict[str, Callable[[NodeView], str]] = {
    "name": lambda _: "",
    "created": lambda node: node.created_at.isoformat(),
    "status": lambda node: str(node.status or ""),
    "health": lambda node: str(node.health),
    "pool": lambda node: node.pool or "",
}
_INSTANCE_ORDERS: dict[str, Callable[[InstanceView], str]] = {
    "name": lambda _: "",
    "created": lambda instance: instance.created_at.isoformat(),
    "status": lambda instance: str(instance.state),
    "pool": lambda instance: instance.pool or "",
}


def page_of_nodes(views: Iterable[NodeView], query: Query, revision: int) -> Page[NodeView]:
    """Return the part of `views` that `query` asks for."""
    found = [view for view in views if _node_matches(view, query)]
    return _page(found, query, _NODE_ORDERS, lambda view: view.id, revision)


def page_of_instances(
    views: Iterable[InstanceView], query: Query, revision: int
) -> Page[InstanceView]:
    """Return the part of `views` that `query` asks for."""
    found = [view for view in views if _instance_matches(view, query)]
    return _page(found, query, _INSTANCE_ORDERS, lambda view: view.node, revision)


def _node_matches(view: NodeView, query: Query) -> bool:
    return (
        query.pool in (None, view.pool)
        and query.provider in (None, view.provider)
        and query.region in (None, view.region)
        and query.status in (None, view.status)
        and query.health in (None, view.health)
        and query.labels.items() <= view.labels.items()
    )


def _instance_matches(view: InstanceView, query: Query) -> bool:
    return (
        query.pool in (None, view.pool)
        and query.provider in (None, view.provider)
        and query.region in (None, view.region)
        and query.state in (None, view.state)
        and query.labels.items() <= view.labels.items()
    )


def _page(
    found: list[T],
    query: Query,
    orders: dict[str, Callable[[T], str]],
    name: Callable[[T], str],
    revision: int,
) -> Page[T]:
    descending = query.order_by.startswith("-")
    order = orders.get(query.order_by.removeprefix("-"))
    if order is None:
        raise InvalidError(f"order_by: {query.order_by!r} is none of {', '.join(orders)}")
    if not 1 <= query.page_size <= PAGE_SIZE_MAX:
        raise InvalidError(f"page_size: must be 1 to {PAGE_SIZE_MAX}, not {query.page_size}")

    def key(item: T) -> tuple[str, list[tuple[int, int, str]]]:
        return order(item), natural(name(item))

    found.sort(key=key, reverse=descending)
    start = 0
    if query.page_token:
        last = _read_token(query.page_token)
        start = sum(key(item) >= last if descending else key(item) <= last for item in found)
    items = found[start : start + query.page_size]
    more = start + len(items) < len(found)
    return Page(
        items=tuple(items),
        next_page_token=_write_token(key(items[-1])) if items and more else "",
        total=len(found),
        revision=revision,
    )


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts `node-9` before `node-10`."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for character in name + "\0":
        if character.isdecimal() and character.isascii():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits), digits))
            digits = ""
        parts.append((1, 0, character))
    return parts


def _write_token(key: tuple[str, list[tuple[int, int, str]]]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _read_token(token: str) -> tuple[str, list[tuple[int, int, str]]]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.json.decode(text, type=tuple[str, list[tuple[int, int, str]]])
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidError("page_token: not one that was given out here") from error
