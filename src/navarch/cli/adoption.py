"""`navarch adopt`, `navarch release` and `navarch node forget`: machines that no pool bought."""

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_pool
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.nodes import NODES, for_each_node
from navarch.cli.options import label, reason_option
from navarch.cli.output import Output
from navarch.cli.printing import echo
from navarch.cli.render.nodes import render_nodes
from navarch.cli.session import Session, with_session
from navarch.core.ids import PoolName
from navarch.ports.adoption import AdoptionApi, MachineChoice
from navarch.ports.api import FleetApi


@click.command("adopt", cls=Command)
@click.argument("machines", nargs=-1, metavar="[MACHINE[=NODE]]...")
@click.option("--pool", required=True, shell_complete=complete_pool, help="Pool that takes them.")
@click.option("--provider", default="", help="Only machines of this provider.")
@click.option(
    "--tag",
    "tags",
    type=label,
    multiple=True,
    metavar="KEY=VALUE",
    help="Every running machine with this tag at its provider; repeatable.",
)
@reason_option
@with_session
def adopt(
    session: Session,
    machines: tuple[str, ...],
    pool: str,
    provider: str,
    tags: tuple[tuple[str, str], ...],
    reason: str,
) -> None:
    """Take running machines into a pool, which owns them from then on.

    MACHINE is the id of a machine at its provider, with an agent that has registered under that id,
    or as NODE. The pool replaces and terminates adopted machines like any others; `navarch release`
    gives one up. All machines are adopted, or none.
    """
    if not machines and not tags:
        raise click.UsageError("name machines, or pass --tag")
    pairs = [machine.partition("=") for machine in machines]
    chosen = MachineChoice(
        names=tuple(name for name, _, _ in pairs),
        agents={name: node for name, _, node in pairs if node},
        labels=dict(tags),
        provider=provider,
    )
    found = session.call(
        lambda api: _adoption_api(api).adopt(PoolName(pool), chosen, reason=reason)
    )
    if session.output is Output.TABLE:
        for node in found:
            echo(f"Node {node.id} belongs to pool {pool}, with {node.instance}")
    else:
        session.show(list(found), lambda canvas: render_nodes(found, canvas))


@click.command("release", cls=Command)
@NODES
@reason_option
@with_session
def release(session: Session, nodes: tuple[str, ...], reason: str) -> int:
    """Give up adopted machines without terminating them.

    They stay as self-registered nodes. Their pool shrinks, if its minimum allows, so that nothing
    is bought in their place.
    """
    return for_each_node(
        session,
        nodes,
        "released",
        lambda api, name: _adoption_api(api).release(name, reason=reason),
        warn=False,
    )


@click.group("node", cls=Group)
def node() -> None:
    """Commands on machines that Navarch did not buy."""


@node.command("forget", cls=Command)
@NODES
@reason_option
@with_session
def forget(session: Session, nodes: tuple[str, ...], reason: str) -> int:
    """Remove self-registered nodes whose hosts no longer report.

    The machines are not touched. An agent that reports again registers a new node. A node that
    still reports, or that Navarch bought, is refused.
    """
    return for_each_node(
        session,
        nodes,
        "forgotten",
        lambda api, name: _adoption_api(api).forget(name, reason=reason),
        warn=False,
    )


def _adoption_api(api: FleetApi) -> AdoptionApi:
    return api if isinstance(api, AdoptionApi) else refuse_over_grpc("these commands are")
