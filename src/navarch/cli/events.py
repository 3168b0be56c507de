"""`navarch events`: the journal."""

from datetime import datetime

import click

from navarch.cli.commands import Command
from navarch.cli.options import When, resolve_when, since_option
from navarch.cli.output import Output, list_all_events, render_data, render_line
from navarch.cli.printing import echo
from navarch.cli.render.events import render_event, render_events
from navarch.cli.session import Session, with_session
from navarch.core.errors import InvalidError
from navarch.core.event import Recorded, Subject
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi

NEWEST = 50
"""Number of events shown without --since and --limit."""


@click.command("events", cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events.")
@since_option("Start: 10m, 2026-03-01 or 2026-03-01T12:00:00Z.")
@click.option(
    "--about", metavar="KIND/NAME", help="Only events about this: node/my-cluster-0, pool/x."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Show at most this many, the newest.  [{NEWEST}, or all with --since]",
)
@with_session
def events(
    session: Session,
    follow: bool,
    since: When | None,
    about: str | None,
    limit: int | None,
) -> None:
    """Show the journal: what happened and why, oldest first."""
    subject = _subject(about)
    start = None if since is None else resolve_when(since, session.clock.now())
    if follow:
        session.call_without_timeout(lambda api: _follow(session, api, subject, start, limit))
        return
    session.show_call(lambda api: read_events(api, subject, start, limit), render_events)


def _subject(about: str | None) -> Subject | None:
    if about is None:
        return None
    kind, slash, name = about.partition("/")
    if not (kind and slash and name):
        raise click.UsageError(f"--about {about}: expected KIND/NAME, such as node/my-cluster-0")
    return Subject(about)


async def read_events(
    api: FleetApi, about: Subject | None, since: datetime | None, limit: int | None
) -> list[Recorded]:
    """Return the newest events of the journal, oldest first."""
    if limit is None and since is None:
        limit = NEWEST
    try:
        found = await _read_backwards(api, about, since, limit)
    except InvalidError as error:
        if "unknown parameter" not in str(error):
            raise
        found = None
    return await _read_forwards(api, about, since, limit) if found is None else found


async def _read_backwards(
    api: FleetApi, about: Subject | None, since: datetime | None, limit: int | None
) -> list[Recorded] | None:
    """Return the newest events, oldest first; None if the server only reads forwards."""
    found: list[Recorded] = []
    before: int | None = None
    while limit is None or len(found) < limit:
        size = min(limit or PAGE_SIZE_MAX, PAGE_SIZE_MAX)
        page = await api.events(before=before, about=about, newest_first=True, limit=size)
        # Over gRPC, a server that does not have the parameter ignores it.
        if len(page) > 1 and page[0].number < page[-1].number:
            return None
        wanted = [entry for entry in page if since is None or entry.event.at >= since]
        found += wanted
        # Entries that a wrong clock dated too early do not hide those before them.
        if len(page) < size or not wanted:
            break
        before = page[-1].number
    return found[:limit][::-1]


async def _read_forwards(
    api: FleetApi, about: Subject | None, since: datetime | None, limit: int | None
) -> list[Recorded]:
    """Return the newest events from a server of version 0.1.0, which only reads forwards."""
    after = 0
    if about is None and since is None and limit is not None:
        newest = max((entry.number for entry in (await api.status()).recent), default=0)
        after = max(0, newest - limit)
    found = await list_all_events(api, after=after, about=about)
    kept = [entry for entry in found if since is None or entry.event.at >= since]
    return kept if limit is None else kept[-limit:]


async def _follow(
    session: Session,
    api: FleetApi,
    about: Subject | None,
    since: datetime | None,
    limit: int | None,
) -> None:
    # Read the revision first, so that no event is lost between history and stream.
    revision = (await api.status()).revision
    last = 0
    for entry in await read_events(api, about, since, limit):
        _print(session, entry)
        last = max(last, entry.number)
    async for update in api.watch(after_revision=revision):
        for entry in update.events:
            if entry.number > last and about in (None, entry.event.about):
                _print(session, entry)


def _print(session: Session, entry: Recorded) -> None:
    if session.output is Output.TABLE:
        echo(render_event(entry, session.canvas()))
    elif session.output is Output.NAME:
        echo(render_data(entry, session.output))
    else:
        echo(render_line(entry))
