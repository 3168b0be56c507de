"""Lists come in pages; a person wants all of it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from navarch.ports.api import PAGE_SIZE_MAX, Page, Query

T = TypeVar("T")


async def every(ask: Callable[[Query], Awaitable[Page[T]]], query: Query) -> list[T]:
    """Return the items of all pages."""
    found: list[T] = []
    query = replace(query, page_size=PAGE_SIZE_MAX)
    while True:
        page = await ask(query)
        found += page.items
        if not page.next_page_token:
            return found
        query = replace(query, page_token=page.next_page_token)
