"""Read every page of a list, and every event of the journal."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from navarch.core.event import Recorded, Subject
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, Page, Query

T = TypeVar("T")


async def list_all(list_page: Callable[[Query], Awaitable[Page[T]]], query: Query) -> list[T]:
    """Return the items of all pages."""
    found: list[T] = []
    query = replace(query, page_size=PAGE_SIZE_MAX)
    while True:
        page = await list_page(query)
        found += page.items
        if not page.next_page_token:
            return found
        query = replace(query, page_token=page.next_page_token)


async def list_all_events(
    api: FleetApi, *, after: int = 0, about: Subject | None = None
) -> list[Recorded]:
    """Return every event after number `after`, oldest first."""
    found: list[Recorded] = []
    while page := await api.events(after=after, about=about, limit=PAGE_SIZE_MAX):
        found += page
        after = page[-1].number
    return found
