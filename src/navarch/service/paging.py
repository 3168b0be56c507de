"""Pages of lists: ordered, and continued by token."""

import base64
import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from navarch.core.errors import InvalidError
from navarch.core.node import Node, instance_state, node_status
from navarch.ports.api import PAGE_SIZE_MAX, Page, Query

V = TypeVar("V")

Words = tuple[tuple[str, int], ...]
Key = tuple[str, Words]
Order = Callable[[Node], str]

NODE_ORDERS: Mapping[str, Order] = {
    "name": lambda _: "",
    "created": lambda node: node.created_at.isoformat(),
    "status": lambda node: str(node_status(node) or ""),
    "health": lambda node: str(node.health),
    "pool": lambda node: node.pool or "",
}
INSTANCE_ORDERS: Mapping[str, Order] = {
    "name": lambda _: "",
    "created": lambda node: node.created_at.isoformat(),
    "status": lambda node: str(instance_state(node)),
    "pool": lambda node: node.pool or "",
}


def page_of(
    nodes: Iterable[Node],
    query: Query,
    orders: Mapping[str, Order],
    show: Callable[[Node], V],
    revision: int,
) -> Page[V]:
    """Return the page of `nodes` that `query` requests, each converted by `show`.

    Only nodes on the page are converted, so a page of a large fleet costs little more than one of
    a small fleet.
    """
    order = orders.get(query.order_by.removeprefix("-"))
    if order is None:
        raise InvalidError(f"order_by: {query.order_by!r} is not one of {', '.join(orders)}")
    if not 1 <= query.page_size <= PAGE_SIZE_MAX:
        raise InvalidError(f"page_size: must be 1 to {PAGE_SIZE_MAX}, not {query.page_size}")

    def key(node: Node) -> Key:
        return order(node), natural(node.id)

    found = list(nodes)
    rest = _after(found, query, key)
    pick = heapq.nlargest if query.order_by.startswith("-") else heapq.nsmallest
    picked = pick(query.page_size + 1, rest, key=key)
    items = picked[: query.page_size]
    token = ""
    if len(picked) > len(items):
        last = msgspec.json.encode(key(items[-1]))
        token = base64.urlsafe_b64encode(last).decode().rstrip("=")
    return Page(
        items=tuple(show(node) for node in items),
        next_page_token=token,
        total=len(found),
        revision=revision,
    )


def _after(found: list[Node], query: Query, key: Callable[[Node], Key]) -> list[Node]:
    if not query.page_token:
        return found
    last = _read_token(query.page_token)
    if query.order_by.startswith("-"):
        return [node for node in found if key(node) < last]
    return [node for node in found if key(node) > last]


_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=1 << 18)
def natural(name: str) -> Words:
    """Return a sort key that puts `node-9` before `node-10`."""
    parts = _DIGITS.split(name)
    numbers = [int(part) for part in parts[1::2]]
    return tuple(zip(parts[::2], [*numbers, -1], strict=True))


def _read_token(token: str) -> Key:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        key: Key = msgspec.json.decode(text, type=Key)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidError("page_token: not a token of this server") from error
    return key
