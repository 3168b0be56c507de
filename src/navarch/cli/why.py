"""`navarch why`: the reasons behind the state of a thing."""

from pathlib import Path

import click

from navarch.cli.commands import Command
from navarch.cli.errors import BAD_USAGE, NOT_FOUND, CommandError
from navarch.cli.jobs import job_api
from navarch.cli.render.explanation import format_explanation
from navarch.cli.render.why import render_why
from navarch.cli.session import Session, with_session
from navarch.core.errors import NotFoundError
from navarch.core.event import Subject, about
from navarch.core.ids import JobName
from navarch.ports.api import FleetApi, Why

KINDS = ("node", "pool", "launch", "gang", "incident", "job")
LISTED_BY = {
    "node": "navarch list --all",
    "pool": "navarch pool list",
    "job": "navarch job list --all",
}


@click.command("why", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="[node|pool|launch|gang|job] NAME")
@click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Look for a job in this snapshot of a scheduler, instead of asking the server.",
)
@with_session
def why(session: Session, words: tuple[str, ...], snapshot: Path | None) -> None:
    """Tell why a node, pool, launch, gang or job is as it is, newest first, causes indented.

    The kind may be left out where only one thing has that name. Of a job that waits it is told
    how far it gets, which rule refuses which nodes, and what would have to change.
    """
    kinds, name = parse_subject(words)
    if snapshot is not None:
        if kinds != ("job",):
            raise click.UsageError("a snapshot has jobs: navarch why job NAME --snapshot FILE")
        _why_job_in(session, name, snapshot)
        return
    story = session.call(lambda api: _the_only_story(api, kinds, name))
    if not story.about.startswith("job/"):
        session.show(story, lambda canvas: render_why(story, canvas))
        return
    explanation = session.call(lambda api: job_api(api).explain_job(JobName(name)))
    session.show(
        explanation,
        lambda canvas: f"{format_explanation(explanation)}\n\n{render_why(story, canvas)}",
    )


def _why_job_in(session: Session, name: str, snapshot: Path) -> None:
    # Only here: the scheduler is not part of a light install.
    from navarch.scheduler.conformance.load import load_any
    from navarch.scheduler.explain import why_job
    from navarch.scheduler.snapshot.document import read_document

    loaded = load_any(read_document(snapshot.read_bytes()), None)
    explanation = why_job(loaded.cluster, loaded.config, name)
    session.show(explanation, lambda _canvas: format_explanation(explanation))


def parse_subject(words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the kinds that may be meant, and the name: `node x`, `node/x` or `x`."""
    if len(words) == 1 and "/" in words[0]:
        words = tuple(words[0].split("/", 1))
    match words:
        case (name,):
            return KINDS, name
        case (kind, name) if kind in (*KINDS, "command"):
            return (kind,), name
        case (kind, _):
            raise click.UsageError(f"{kind!r} is no kind of thing: say {', '.join(KINDS)}")
        case _:
            raise click.UsageError(
                "one thing at a time: navarch why [node|pool|launch|gang|job] NAME"
            )


async def _the_only_story(api: FleetApi, kinds: tuple[str, ...], name: str) -> Why:
    if len(kinds) == 1:
        return await _known_story(api, kinds[0], name)
    stories = [(about(kind, name), await _story(api, about(kind, name))) for kind in kinds]
    # A launch answers to the name of its node as well; here the node is meant.
    found = [story for asked, story in stories if story is not None and story.about == asked]
    if not found:
        raise CommandError(
            f"there is and was no node, pool, launch, gang or job named {name!r}; "
            "`navarch list --all` shows the nodes",
            NOT_FOUND,
        )
    if len(found) > 1:
        names = " and a ".join(story.about.partition("/")[0] for story in found)
        first = found[0].about.partition("/")[0]
        raise CommandError(
            f"{name} is a {names}; say which, as in: navarch why {first} {name}", BAD_USAGE
        )
    return found[0]


async def _known_story(api: FleetApi, kind: str, name: str) -> Why:
    try:
        return await api.why(about(kind, name))
    except NotFoundError as error:
        if kind not in LISTED_BY:
            raise
        raise CommandError(
            f"there is and was no {kind} named {name!r}; `{LISTED_BY[kind]}` shows the {kind}s",
            NOT_FOUND,
        ) from error


async def _story(api: FleetApi, subject: Subject) -> Why | None:
    try:
        return await api.why(subject)
    except NotFoundError:
        return None
