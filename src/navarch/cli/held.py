"""`navarch held`: actions that safety limits hold back, and how to release them."""

from collections.abc import Sequence

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_node, complete_pool
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.options import reason_option
from navarch.cli.output import Output
from navarch.cli.printing import echo
from navarch.cli.render.table import Canvas, Column, age, count, printable, render_table
from navarch.cli.session import Session, with_session
from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import FleetApi
from navarch.ports.fleet_health import HeldApi, HeldNode


@click.group("held", cls=Group, invoke_without_command=True)
@click.pass_context
def held(context: click.Context) -> None:
    """List nodes with a held-back action, or release them."""
    if context.invoked_subcommand is None:
        context.invoke(list_held)


@held.command("list")
@click.option("--pool", help="Only in this pool.", shell_complete=complete_pool)
@with_session
def list_held(session: Session, pool: str | None) -> None:
    """List the held nodes, longest held first."""
    name = PoolName(pool) if pool else None
    session.show_call(lambda api: held_api(api).list_held(pool=name), render_held)


@held.command("release", cls=Command)
@click.argument("nodes", nargs=-1, metavar="[NODE]...", shell_complete=complete_node)
@click.option("--pool", help="Release every held node of this pool.", shell_complete=complete_pool)
@reason_option
@click.option("-y", "--yes", is_flag=True, help="Release a whole pool without confirmation.")
@with_session
def release(
    session: Session, nodes: tuple[str, ...], pool: str | None, reason: str, yes: bool
) -> None:
    """Release held nodes, or every held node of a pool.

    The held actions run at once, regardless of budgets. A pool that stopped launching or replacing
    machines resumes.
    """
    release_held(session, nodes, pool=pool, reason=reason, yes=yes)


def release_held(
    session: Session, nodes: Sequence[str], *, pool: str | None, reason: str, yes: bool
) -> None:
    """Release held nodes and print the result."""
    if bool(nodes) is (pool is not None):
        raise click.UsageError("pass nodes or a pool: navarch held release NODE... or --pool POOL")
    name = PoolName(pool) if pool is not None else None
    if name is not None and not yes:
        waiting = [
            each
            for each in session.call(lambda api: held_api(api).list_held(pool=name))
            if each.held.releasable
        ]
        if waiting:
            for words in dict.fromkeys(each.held.because for each in waiting):
                echo(f"Held: {printable(words)}")
            nodes_waiting = count(len(waiting), "node")
            click.confirm(
                f"Run the held actions of {nodes_waiting} in pool {name} now?", abort=True
            )
    names = [NodeId(node) for node in nodes]
    found = session.call(lambda api: held_api(api).release_held(names, pool=name, reason=reason))
    if session.output is Output.TABLE:
        for each in found:
            echo(f"Node {each.node} released: {each.held.action}")
        if not found:
            echo(f"Pool {name} released: it launches and replaces machines again")
        return
    session.show(found, lambda canvas: render_held(found, canvas))


def render_held(found: Sequence[HeldNode], canvas: Canvas) -> str:
    """Return the table that `navarch held list` prints."""
    if not found:
        return "No held nodes found"
    columns: list[Column[HeldNode]] = [
        Column("Node", lambda each: each.node),
        Column("Pool", lambda each: each.pool or "", rank=3),
        Column("Action", lambda each: each.held.action, rank=1),
        Column(
            "Held",
            lambda each: "released" if each.held.released else age(each.held.since, canvas.now),
            rank=2,
        ),
        Column("Reason", lambda each: each.held.because, width_min=24),
    ]
    table = render_table(columns, found, canvas)
    if all(each.held.released or not each.held.releasable for each in found):
        return table
    return f"{table}\n\nTo release: navarch held release NODE, or --pool POOL for a whole pool"


def held_api(api: FleetApi) -> HeldApi:
    """Return `api` as a HeldApi, or raise if the connection does not provide it."""
    return api if isinstance(api, HeldApi) else refuse_over_grpc("held nodes are")
