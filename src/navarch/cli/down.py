"""`navarch down`: terminate a pool and its machines."""

from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_pool
from navarch.cli.errors import CommandError
from navarch.cli.options import timeout_option
from navarch.cli.pagination import list_all
from navarch.cli.render.formatting import count, exact_duration
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.cli.waiting import wait_until_gone
from navarch.core.errors import NotFoundError
from navarch.core.ids import PoolName
from navarch.ports.api import FleetApi, PoolView, Query


@click.command("down", cls=Command)
@click.argument("name", shell_complete=complete_pool)
@click.option(
    "--wait/--no-wait", default=True, help="Wait until every machine is terminated.  [--wait]"
)
@click.option("--reason", default="torn down by hand", help="Reason, recorded in the journal.")
@timeout_option("Maximum time to wait.  [20m]")
@with_session
def down(
    session: Session,
    name: str,
    wait: bool,
    reason: str,
    within: timedelta | None,
) -> None:
    """Drain a pool's nodes, terminate its machines, and delete the pool."""
    pool = PoolName(name)
    limit = within or session.timeout_or(WAIT_TIMEOUT)
    if wait:
        gone = session.call_without_timeout(
            lambda api: _delete_and_wait(session, api, pool, reason, limit)
        )
        text = f"Pool {name} is gone"
    else:
        gone = session.call(lambda api: start_deleting(api, pool, reason))
        text = f"Pool {name} is being deleted"
    session.show(gone, lambda _: text)


async def _delete_and_wait(
    session: Session, api: FleetApi, pool: PoolName, reason: str, limit: timedelta
) -> PoolView:
    view = await start_deleting(api, pool, reason)
    if await wait_until_gone(session, api, pool, within=limit):
        return view
    left = await list_all(api.list_nodes, Query(pool=pool))
    names = ", ".join(node.id for node in left[:5]) + (", ..." if len(left) > 5 else "")
    raise CommandError(
        f"{count(len(left), 'machine')} of {pool} left after {exact_duration(limit)} ({names}); "
        f"termination continues. To wait again: navarch down {pool}"
    )


async def start_deleting(api: FleetApi, pool: PoolName, reason: str) -> PoolView:
    """Start deleting a pool; succeed as well if it is being deleted already."""
    try:
        return await api.delete_pool(pool, reason=reason)
    except NotFoundError:
        return await api.get_pool(pool)
