"""`navarch incident`: list, show and release incidents."""

import click

from navarch.cli.commands import Group
from navarch.cli.completion import complete_node
from navarch.cli.held import held_api, release_held
from navarch.cli.options import reason_option
from navarch.cli.render.events import render_incident, render_incidents
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.errors import NotPossibleError
from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentState
from navarch.ports.api import FleetApi
from navarch.ports.fleet_health import HeldApi, HeldNode


@click.group("incident", cls=Group)
def incident() -> None:
    """Show incidents: each groups a cause with the symptoms that followed."""


@incident.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only open incidents.")
@click.option("--node", shell_complete=complete_node, help="Only on this node.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Show at most this many, the latest.",
)
@watch_option
@with_session
def list_incidents(
    session: Session, only_open: bool, node: str | None, limit: int, watch: bool
) -> None:
    """List incidents, latest first."""
    name = NodeId(node) if node else None
    show_or_watch(
        session,
        lambda api: api.list_incidents(node=name, only_open=only_open, limit=limit),
        render_incidents,
        watch=watch,
    )


@incident.command("get")
@click.argument("name", metavar="ID")
@with_session
def get(session: Session, name: str) -> None:
    """Show one incident: cause, symptoms and recovery."""
    found = session.call(lambda api: api.get_incident(IncidentId(name)))
    waiting = session.call(lambda api: _waiting(api, found))
    session.show(found, lambda canvas: render_incident(found, canvas, waiting))


async def _waiting(api: FleetApi, incident: Incident) -> list[HeldNode]:
    """Return the held nodes of an incident; none over gRPC."""
    if incident.state is not IncidentState.HELD or not isinstance(api, HeldApi):
        return []
    return [each for each in await api.list_held() if each.node in incident.nodes]


@incident.command("release")
@click.argument("name", metavar="ID")
@reason_option
@with_session
def release(session: Session, name: str, reason: str) -> None:
    """Release the held nodes of an incident.

    The held actions run at once, regardless of budgets, as with `navarch held release`.
    """
    found = session.call(lambda api: api.get_incident(IncidentId(name)))
    waiting = {each.node: each for each in session.call(lambda api: held_api(api).list_held())}
    held = [node for node in found.nodes if node in waiting]
    if not held:
        raise NotPossibleError(f"incident {name} has no held nodes; it is {found.state}")
    ready = [node for node in held if waiting[node].held.releasable]
    # If none can be released, the server's error explains what to do instead.
    release_held(session, ready or held, pool=None, reason=reason or f"incident {name}", yes=True)
