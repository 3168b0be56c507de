"""Confirmation of commands that terminate machines, on a terminal."""

from collections.abc import Sequence
from decimal import Decimal

import click

from navarch.cli.output import list_all
from navarch.cli.printing import echo
from navarch.cli.render.nodes import status_word
from navarch.cli.render.table import count, price, printable
from navarch.cli.session import Session
from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import FleetApi, NodeView, Query

NAMES_MAX = 5

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm_deletion(session: Session, pool: PoolName) -> None:
    """Show which machines leave with `pool`, and ask; abort unless the answer is yes."""
    if session.environment.is_interactive():
        nodes = session.call(lambda api: list_all(api.list_nodes, Query(pool=pool)))
        _ask(nodes, f"Delete pool {pool}?")


def confirm_termination(session: Session, names: Sequence[NodeId]) -> None:
    """Show which machines are terminated, and ask; abort unless the answer is yes."""
    if session.environment.is_interactive():
        nodes = session.call(lambda api: _known(api, names))
        _ask(nodes, f"Terminate {count(len(nodes), 'node')}? Pools replace terminated nodes.")


def _ask(nodes: Sequence[NodeView], question: str) -> None:
    """Ask only if the command would terminate a machine that is not leaving already.

    Machines without a provider registered themselves, and the server refuses to terminate them.
    """
    staying = [node for node in nodes if node.retiring is None and node.provider]
    if not staying:
        return
    for node in staying[:NAMES_MAX]:
        echo(f"  {node.id}: {_describe(node)}", err=True)
    if len(staying) > NAMES_MAX:
        echo(f"  and {len(staying) - NAMES_MAX} more", err=True)
    gpus = sum(node.gpus for node in staying)
    cost = sum((node.price_per_hour for node in staying), Decimal(0))
    unknown = sum(node.instance is not None and not node.price_per_hour for node in staying)
    more = f", and {count(unknown, 'machine')} at an unknown price" if unknown else ""
    total = f"{count(len(staying), 'node')} with {count(gpus, 'GPU')}, {price(cost)}/h{more}"
    echo(f"This drains and terminates {total}.", err=True)
    click.confirm(question, abort=True, err=True)


def _describe(node: NodeView) -> str:
    place = node.zone or node.region
    machine = f"{node.instance_type} at {node.provider}{f' in {place}' if place else ''}"
    return printable(f"{machine}, {status_word(node).lower()}, {node.health}")


async def _known(api: FleetApi, names: Sequence[NodeId]) -> list[NodeView]:
    """Return the nodes that exist; the command reports the others."""
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append((await api.get_node(name)).node)
        except NotFoundError:
            continue
    return found
