"""`navarch why`: explain the state of a node, pool, launch, gang or job."""

from pathlib import Path

import click

from navarch.cli.commands import Command
from navarch.cli.errors import BAD_USAGE, NOT_FOUND, CommandError
from navarch.cli.jobs import job_api
from navarch.cli.render.why import format_explanation, render_why
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
    help="Explain a job in this scheduler snapshot, instead of on the server.",
)
@with_session
def why(session: Session, words: tuple[str, ...], snapshot: Path | None) -> None:
    """Explain the state of a node, pool, launch, gang or job, newest first, causes indented.

    The kind may be omitted if the name is unique. For a pending job, the explanation includes how
    far it gets, which rule refuses which nodes, and what would have to change.
    """
    kinds, name = parse_subject(words)
    if snapshot is not None:
        if kinds != ("job",):
            raise click.UsageError(
                "a snapshot contains only jobs: navarch why job NAME --snapshot FILE"
            )
        # Imported late: the scheduler is not part of a light install.
        from navarch.scheduler.explain import why_job
        from navarch.scheduler.snapshot.document import read_document
        from navarch.testing.scheduler_conformance.case import load_any

        loaded = load_any(read_document(snapshot.read_bytes()), None)
        explanation = why_job(loaded.cluster, loaded.config, name)
        session.show(explanation, lambda _: format_explanation(explanation))
        return
    story = session.call(lambda api: _find_by_name(api, kinds, name))
    if not story.about.startswith("job/"):
        session.show(story, lambda canvas: render_why(story, canvas))
        return
    explanation = session.call(lambda api: job_api(api).explain_job(JobName(name)))
    session.show(
        explanation,
        lambda canvas: f"{format_explanation(explanation)}\n\n{render_why(story, canvas)}",
    )


def parse_subject(words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the possible kinds and the name in `node x`, `node/x` or `x`."""
    if len(words) == 1 and "/" in words[0]:
        words = tuple(words[0].split("/", 1))
    match words:
        case (name,):
            return KINDS, name
        case (kind, name) if kind in (*KINDS, "command"):
            return (kind,), name
        case (kind, _):
            raise click.UsageError(f"unknown kind {kind!r}; use one of {', '.join(KINDS)}")
        case _:
            raise click.UsageError("pass one name: navarch why [node|pool|launch|gang|job] NAME")


async def _find_by_name(api: FleetApi, kinds: tuple[str, ...], name: str) -> Why:
    if len(kinds) == 1:
        return await _find_by_kind(api, kinds[0], name)
    stories = [(about(kind, name), await _find(api, about(kind, name))) for kind in kinds]
    # A launch also matches the name of its node; here the node is meant.
    found = [story for subject, story in stories if story is not None and story.about == subject]
    if not found:
        raise CommandError(
            f"no node, pool, launch, gang or job named {name!r} found. "
            "List nodes with: navarch list --all",
            NOT_FOUND,
        )
    if len(found) > 1:
        names = " and a ".join(story.about.partition("/")[0] for story in found)
        first = found[0].about.partition("/")[0]
        raise CommandError(
            f"{name} is a {names}; pass the kind, such as: navarch why {first} {name}", BAD_USAGE
        )
    return found[0]


async def _find_by_kind(api: FleetApi, kind: str, name: str) -> Why:
    try:
        return await api.why(about(kind, name))
    except NotFoundError as error:
        if kind not in LISTED_BY:
            raise
        raise CommandError(
            f"{kind} {name!r} not found. List {kind}s with: {LISTED_BY[kind]}",
            NOT_FOUND,
        ) from error


async def _find(api: FleetApi, subject: Subject) -> Why | None:
    try:
        return await api.why(subject)
    except NotFoundError:
        return None
