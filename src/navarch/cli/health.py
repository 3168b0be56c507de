"""`navarch health`: the health of the fleet, or of one node GPU by GPU."""

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.events import read_events
from navarch.cli.render.fleet_health import render_fleet_health
from navarch.cli.render.health import NodeHealth, gpu_health, render_health
from navarch.cli.session import Session, with_session
from navarch.core.event import about
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi
from navarch.ports.fleet_health import FleetHealthApi

HISTORY = 10
HISTORY_KINDS = {"node.health", "health.finding"}
"""The events that make up a node's health history."""


@click.command("health", cls=Command)
@click.argument("node", required=False, shell_complete=complete_node)
@click.option(
    "--history",
    type=click.IntRange(min=0),
    default=HISTORY,
    show_default=True,
    help="Number of past findings and health changes to show.",
)
@with_session
def health(session: Session, node: str | None, history: int) -> None:
    """Show the health of the fleet, or of one node GPU by GPU with its history."""
    if node is None:
        session.show_call(lambda api: _health_api(api).fleet_health(), render_fleet_health)
    else:
        session.show_call(lambda api: _node_health(api, NodeId(node), history), render_health)


async def _node_health(api: FleetApi, node: NodeId, history: int) -> NodeHealth:
    detail = await api.get_node(node)
    story = await read_events(api, about("node", node), None, None) if history else []
    changes = [entry for entry in story if entry.event.kind in HISTORY_KINDS]
    return gpu_health(detail, changes[-history:] if history else [])


def _health_api(api: FleetApi) -> FleetHealthApi:
    return api if isinstance(api, FleetHealthApi) else refuse_over_grpc("fleet health is")
