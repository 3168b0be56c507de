"""`navarch up` and `navarch down`: create, resize and terminate a pool."""

from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_pool
from navarch.cli.confirm import confirm_deletion, yes_option
from navarch.cli.errors import CommandError
from navarch.cli.options import setup_options, timeout_option
from navarch.cli.output import list_all
from navarch.cli.printing import echo
from navarch.cli.render.pools import offer
from navarch.cli.render.table import count, exact_duration, price
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.cli.watch import explain_interrupt, wait_until_gone, wait_until_up
from navarch.core.errors import NotFoundError
from navarch.core.ids import PoolName
from navarch.core.machine_setup import MachineSetup
from navarch.ports.api import STILL_CONFIGURED, Capacity, FleetApi, PoolView, Query


@click.command("up", cls=Command)
@click.option("--gpus", type=click.IntRange(min=1), required=True, help="Minimum number of GPUs.")
@click.option("--type", "gpu_type", required=True, help="GPU type: h100, a100, ...")
@click.option("--name", required=True, help="Name of the pool; its nodes are NAME-0, NAME-1, ...")
@click.option("--provider", help="Only from this provider.")
@click.option("--region", help="Only in this region.")
@click.option("--spot", is_flag=True, help="Include spot machines.")
@click.option(
    "--gang",
    type=click.IntRange(min=1),
    metavar="N",
    help="Launch N machines together in one network block: all or none.",
)
@click.option(
    "--ssh-key",
    "ssh_keys",
    multiple=True,
    metavar="KEY",
    help="Public key, or name of a key at the cloud. Repeatable.  [default: yours, in ~/.ssh]",
)
@setup_options
@click.option("--wait/--no-wait", default=False, help="Wait until all nodes are ready.")
@timeout_option("Maximum time to wait, with --wait.  [20m]")
@with_session
def up(
    session: Session,
    gpus: int,
    gpu_type: str,
    name: str,
    provider: str | None,
    region: str | None,
    spot: bool,
    gang: int | None,
    ssh_keys: tuple[str, ...],
    setup: MachineSetup | None,
    wait: bool,
    within: timedelta | None,
) -> None:
    """Get GPUs: create the pool NAME, or resize it if it exists.

    The number of GPUs is rounded up to whole machines of the cheapest offering that fits. Your
    public key can log in to the machines of a new pool; see `navarch ssh`.
    """
    capacity = Capacity(
        name=PoolName(name),
        gpus=gpus,
        gpu_type=gpu_type,
        provider=provider,
        region=region,
        spot=spot,
        gang=gang or 0,
        setup=setup,
        ssh_keys=ssh_keys,
        own_key=session.environment.public_key or "",
    )
    if not wait:
        pool = session.call(lambda api: api.up(capacity))
        session.show(
            pool, lambda _: f"{_describe_request(pool)}\nFollow it with: navarch status --watch"
        )
        return
    limit = within or session.timeout_or(WAIT_TIMEOUT)
    pool = session.call_without_timeout(lambda api: _up_and_wait(session, api, capacity, limit))
    session.show(pool, lambda _: _describe_ready(pool))


async def _up_and_wait(
    session: Session, api: FleetApi, capacity: Capacity, limit: timedelta
) -> PoolView:
    name = capacity.name
    before = await _pool_if_any(api, name)
    requested = await api.up(capacity)
    echo(_describe_request(requested), err=True)
    with explain_interrupt(
        f"No longer waiting. The server still brings up pool {name}. "
        f"See how far it is: navarch status{_undo(before, requested, capacity.gpu_type)}"
    ):
        pool = await wait_until_up(session, api, name, within=limit)
    if pool is not None:
        return pool
    short = await api.get_pool(name)
    reason = f": {short.note}" if short.note else ""
    raise CommandError(
        f"{name} has {short.serving} of {count(short.size, 'node')} after "
        f"{exact_duration(limit)}{reason}. It keeps trying. See why: navarch why {name}"
    )


async def _pool_if_any(api: FleetApi, name: PoolName) -> PoolView | None:
    try:
        return await api.get_pool(name)
    except NotFoundError:
        return None


def _undo(before: PoolView | None, requested: PoolView, gpu_type: str) -> str:
    """Return how to undo a request. The nodes that the pool had before it stay."""
    name = requested.spec.name
    if before is None:
        return f". Undo it: navarch down {name}"
    if before.size == requested.size:
        return ""
    if before.size == 0:
        possible = requested.spec.nodes_min == 0
        return f". Undo it: navarch pool scale {name} 0" if possible else ""
    gpus = before.size * before.spec.offerings[0].gpus
    return f". Undo it: navarch up --gpus {gpus} --type {gpu_type} --name {name}"


def _describe_request(pool: PoolView) -> str:
    best = pool.spec.offerings[0]
    total = price(best.price_per_hour * pool.size)
    gang = f", {pool.spec.gang} together or none" if pool.spec.gang else ""
    return f"Pool {pool.spec.name}: {pool.size} x {offer(best)}, {total}/h in all{gang}"


def _describe_ready(pool: PoolView) -> str:
    gpus = pool.spec.offerings[0].gpus * pool.size
    name = pool.spec.name
    return (
        f"Pool {name} is up: {count(pool.serving, 'node')}, {count(gpus, 'GPU')}, "
        f"{price(pool.price_per_hour)}/h\n"
        f"Next: navarch list --pool {name}\n"
        f"      navarch ssh NODE\n"
        f"      navarch down {name}"
    )


@click.command("down", cls=Command)
@click.argument("name", shell_complete=complete_pool)
@click.option(
    "--wait/--no-wait", default=True, help="Wait until every machine is terminated.  [--wait]"
)
@click.option("--reason", default="torn down by hand", help="Reason, recorded in the journal.")
@timeout_option("Maximum time to wait.  [20m]")
@yes_option
@with_session
def down(
    session: Session,
    name: str,
    wait: bool,
    reason: str,
    within: timedelta | None,
    yes: bool,
) -> None:
    """Drain a pool's nodes, terminate its machines, and delete the pool.

    On a terminal the command shows what it terminates, and asks first.
    """
    pool = PoolName(name)
    if not yes:
        confirm_deletion(session, pool)
    limit = within or session.timeout_or(WAIT_TIMEOUT)
    if wait:
        gone = session.call_without_timeout(
            lambda api: _delete_and_wait(session, api, pool, reason, limit)
        )
        text = f"Pool {name} is gone"
    else:
        gone = session.call(lambda api: start_deleting(api, pool, reason))
        text = f"Pool {name} is being deleted"
    if gone.note == STILL_CONFIGURED:
        text += f". {STILL_CONFIGURED.capitalize()}"
    session.show(gone, lambda _: text)


async def _delete_and_wait(
    session: Session, api: FleetApi, pool: PoolName, reason: str, limit: timedelta
) -> PoolView:
    view = await start_deleting(api, pool, reason)
    with explain_interrupt(
        f"No longer waiting. The server still terminates the machines of pool {pool}. "
        f"To wait again: navarch down {pool}"
    ):
        gone = await wait_until_gone(session, api, pool, within=limit)
    if gone:
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
