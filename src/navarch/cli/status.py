"""`navarch status`, `navarch health` and `navarch cost`: the fleet at a glance."""

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.events import read_events
from navarch.cli.options import When, resolve_when, since_option
from navarch.cli.render.fleet_health import (
    NodeHealth,
    gpu_health,
    render_fleet_health,
    render_health,
    render_status,
)
from navarch.cli.render.offers import render_cost
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.event import about
from navarch.core.ids import NodeId
from navarch.ports.api import CostBy, FleetApi
from navarch.ports.fleet_health import FleetHealthApi


@click.command("status", cls=Command)
@watch_option
@with_session
def status(session: Session, watch: bool) -> None:
    """Show the fleet on one screen: pools, price and latest events."""
    show_or_watch(session, lambda api: api.status(), render_status, watch=watch)


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


@click.command("cost", cls=Command)
@click.option(
    "--by",
    type=click.Choice([str(by) for by in CostBy]),
    default=str(CostBy.POOL),
    show_default=True,
    help="Group by this.",
)
@since_option("Start: 7d, or 2026-03-01.  [default: the first of this month]")
@with_session
def cost(session: Session, by: str, since: When | None) -> None:
    """Show the cost of machines, at the price of each when it was launched.

    The forecast assumes that the machines running now run until the end of the month.
    """
    start = None if since is None else resolve_when(since, session.clock.now())
    session.show_call(lambda api: api.cost(CostBy(by), since=start), render_cost)
