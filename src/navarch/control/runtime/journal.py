"""The journal, read from the store as a whole."""

from navarch.core.event import Recorded, Subject
from navarch.ports.store import Store


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
