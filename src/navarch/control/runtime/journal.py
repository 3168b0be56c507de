"""The journal, read from the store page by page."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from navarch.core.event import Recorded, Subject
from navarch.ports.store import Store

PAGE = 100
"""How many entries are read at a time where the newest ones usually suffice."""


async def read_journal(
    store: Store, *, about: Subject | None = None, after_revision: int = 0
) -> list[Recorded]:
    """Return every entry about a subject, or of all subjects, after a revision; oldest first."""
    found: list[Recorded] = []
    number = 0
    while page := await store.events(after=number, after_revision=after_revision, about=about):
        found += page
        number = page[-1].number
    return found


async def read_back(store: Store, *, about: Subject) -> AsyncIterator[Recorded]:
    """Yield the entries about a subject, newest first."""
    async for page in _pages_back(store, about):
        for entry in page:
            yield entry


async def read_since(store: Store, since: datetime, *, about: Subject) -> list[Recorded]:
    """Return the entries about a subject that are not older than `since`, oldest first."""
    found: list[Recorded] = []
    async for page in _pages_back(store, about):
        wanted = [entry for entry in page if entry.event.at >= since]
        # Entries that a wrong clock dated too early do not hide those before them.
        if not wanted:
            break
        found += wanted
    return found[::-1]


async def _pages_back(store: Store, about: Subject) -> AsyncIterator[Sequence[Recorded]]:
    before: int | None = None
    while page := await store.events(before=before, about=about, newest_first=True, limit=PAGE):
        yield page
        before = page[-1].number
