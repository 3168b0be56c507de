"""`navarch store`: check, back up, restore, migrate and copy the state of a control plane."""

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import click

from navarch.app.store_places import SCHEMES, StorePlace, store_place
from navarch.cli.commands import Group
from navarch.cli.confirm import yes_option
from navarch.cli.errors import CommandError
from navarch.cli.options import checked_store
from navarch.cli.printing import echo
from navarch.cli.session import Session, with_session
from navarch.config import default_config, load_config
from navarch.core.errors import StoreError
from navarch.stores.contents import TABLES, ReadableStore, fill, problems
from navarch.stores.sqlite_contents import new_sqlite, read_sqlite

PROBLEMS_SHOWN = 20

OLD_COPY = (
    "A server on an old copy has no record of machines that were bought later, takes them for "
    "orphans and terminates them."
)

FILE = click.Path(dir_okay=False, path_type=Path)


def place_at(text: str) -> StorePlace:
    """Return the place that `text` names: a folder, a URL, or where its URL is."""
    if text.startswith("env:"):
        if not (url := os.environ.get(text[4:], "")):
            raise click.BadParameter(f"the variable {text[4:]} is not set")
        return store_place(Path(), url)
    if text.startswith("@"):
        try:
            return store_place(Path(), Path(text[1:]).read_text("utf-8").strip())
        except OSError as error:
            raise click.BadParameter(f"{text[1:]}: {error.strerror}") from error
    if text.startswith(SCHEMES):
        return store_place(Path(), checked_store(text))
    return store_place(Path(text), None)


config_option = click.option(
    "-c", "--config", "file", type=FILE, help="Configuration file that names the store."
)
at_option = click.option(
    "--at",
    metavar="PLACE",
    help="Where the state is.  [default: as for `navarch serve`]",
)


def _configured(file: Path | None, at: str | None) -> StorePlace:
    """Return the place that is given, or the one of the configuration and the environment."""
    if at is not None:
        return place_at(at)
    environment = dict(os.environ)
    config = load_config(file, environment=environment) if file else default_config(environment)
    folder = os.environ.get("NAVARCH_DATA_DIR") or config.server.data_dir
    url = config.server.store
    return store_place(
        Path(folder) if folder else Path.home() / ".navarch", url.reveal() if url else None
    )


@click.group("store", cls=Group)
def store() -> None:
    r"""Check, back up, restore, migrate and copy the state of a control plane.

    \b
    navarch store check
    navarch store backup navarch-monday.db
    navarch store copy ~/.navarch env:NAVARCH_STORE

    A PLACE is a data folder, a PostgreSQL URL without a password, `@FILE` with a URL, or
    `env:NAME` for the URL in a variable.
    """


@store.command("check")
@config_option
@at_option
@with_session
def check(session: Session, file: Path | None, at: str | None) -> None:
    """Read everything, also while a server runs, and list what is damaged."""
    place = _configured(file, at)
    with place.read() as opened:
        header = opened.header()
        found = list(islice(problems(opened), PROBLEMS_SHOWN + 1))
        rows = {} if found else _counted(opened)
    facts = {
        "place": place.shown,
        "cluster": header.cluster,
        "revision": header.revision,
        "problems": found[:PROBLEMS_SHOWN],
        "rows": rows,
    }
    session.show(facts, lambda _: _render_check(place, header.revision, rows))
    if found:
        more = "\nand more" if len(found) > PROBLEMS_SHOWN else ""
        raise CommandError(
            f"{place.shown} is damaged:\n"
            + "\n".join(found[:PROBLEMS_SHOWN])
            + more
            + "\nStop the server, and restore a backup: navarch store restore FILE"
        )


def _counted(opened: ReadableStore) -> Mapping[str, int]:
    return {table.name: sum(1 for _ in opened.rows(table)) for table in TABLES}


def _render_check(place: StorePlace, revision: int, rows: Mapping[str, int]) -> str:
    if not rows:
        return f"{place.shown}: revision {revision}"
    return f"{place.shown}: revision {revision}, nothing is damaged\n{_render_rows(rows)}"


def _render_rows(rows: Mapping[str, int]) -> str:
    return "\n".join(f"  {name:<15} {number}" for name, number in rows.items() if number)


@store.command("backup")
@click.argument("target", metavar="FILE", type=FILE)
@config_option
@at_option
@with_session
def backup(session: Session, target: Path, file: Path | None, at: str | None) -> None:
    """Write the state to a new FILE, also while a server runs.

    The file has the secret of the cluster; only its owner can read it.
    """
    place = _configured(file, at)
    with place.read() as source, new_sqlite(target) as new:
        rows = fill(new, source)
    facts = {"place": place.shown, "file": str(target), "rows": rows}
    session.show(facts, lambda _: f"{place.shown} was written to {target}\n{_render_rows(rows)}")


@store.command("restore")
@click.argument("source", metavar="FILE", type=FILE)
@config_option
@at_option
@yes_option
@with_session
def restore(session: Session, source: Path, file: Path | None, at: str | None, yes: bool) -> None:
    """Write the backup in FILE to a place without state.

    A place with state is refused: move its file away first, or name another database.
    """
    place = _configured(file, at)
    if not yes and session.environment.is_interactive():
        echo(OLD_COPY, err=True)
        click.confirm(f"Restore {source} to {place.shown}?", abort=True, err=True)
    with read_sqlite(source) as saved, place.create() as new:
        rows = fill(new, saved)
    facts = {"place": place.shown, "file": str(source), "rows": rows}
    session.show(facts, lambda _: f"{source} was restored to {place.shown}\n{_render_rows(rows)}")


@store.command("migrate")
@config_option
@at_option
@with_session
def migrate(session: Session, file: Path | None, at: str | None) -> None:
    """Bring the state to the format of this version, as `navarch serve` does when it starts."""
    place = _configured(file, at)
    before, after = place.migrate()
    facts = {"place": place.shown, "before": before, "after": after}
    text = (
        f"{place.shown} has format {after} already"
        if before == after
        else f"{place.shown} was migrated from format {before} to {after}"
    )
    session.show(facts, lambda _: text)


@store.command("copy")
@click.argument("source")
@click.argument("target")
@with_session
def copy(session: Session, source: str, target: str) -> None:
    """Move the state from one place to another, between SQLite and PostgreSQL or within one.

    Stop the servers first. The copy is compared with its source. Afterwards no server starts on
    the source: two servers with the same cluster would terminate each other's machines.
    """
    old, new = place_at(source), place_at(target)
    rows = _moved(old, new)
    facts = {"source": old.shown, "target": new.shown, "rows": rows}
    session.show(facts, lambda _: _render_copy(old, new, rows))


def _moved(source: StorePlace, target: StorePlace) -> Mapping[str, int]:
    """Move the state; return the rows by table."""
    before = source.mark(target.shown)
    if before not in (None, target.shown):
        source.mark(before)
        raise StoreError(f"{source.shown} was moved to {before}; copy that one")
    try:
        with source.read() as opened, target.create() as empty:
            return fill(empty, opened)
    except BaseException:
        # A copy that was interrupted by force can be repeated: the mark names its target.
        if before is None:
            source.mark(None)
        raise


def _render_copy(source: StorePlace, target: StorePlace, rows: Mapping[str, int]) -> str:
    return (
        f"{source.shown} was moved to {target.shown}, and compared\n{_render_rows(rows)}\n"
        f"Servers refuse {source.shown} from now on. Evidence, bring-up logs and metric history "
        "stay in the data folder."
    )
