"""`navarch up`: GPUs, please."""

from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.errors import CommandError
from navarch.cli.options import timeout_option
from navarch.cli.render.formatting import count, exact_duration, price
from navarch.cli.render.pools import offer
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.cli.waiting import wait_until_up
from navarch.core.ids import PoolName
from navarch.ports.api import Capacity, FleetApi, PoolView


@click.command("up", cls=Command)
@click.option("--gpus", type=click.IntRange(min=1), required=True, help="How many, at least.")
@click.option("--type", "gpu_type", required=True, help="Of which type: h100, a100, ...")
@click.option("--name", required=True, help="What to call the pool; its nodes are NAME-0, ...")
@click.option("--provider", help="Only from this provider.")
@click.option("--region", help="Only in this region.")
@click.option("--spot", is_flag=True, help="Also machines that may be taken back at any time.")
@click.option(
    "--gang",
    type=click.IntRange(min=1),
    metavar="N",
    help="N machines at once, within one block of the network: all or none.",
)
@click.option("--wait/--no-wait", default=False, help="Return when they serve.")
@timeout_option("With --wait: how long at most.  [20m]")
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
    wait: bool,
    within: timedelta | None,
) -> None:
    """Get GPUs: create a pool of that name, or adjust the one there is.

    The GPUs are rounded up to whole machines of the cheapest offering that fits.
    """
    capacity = Capacity(
        name=PoolName(name),
        gpus=gpus,
        gpu_type=gpu_type,
        provider=provider,
        region=region,
        spot=spot,
        gang=gang or 0,
    )
    if not wait:
        pool = session.call(lambda api: api.up(capacity))
        session.show(pool, lambda _: f"{_asked(pool)}\nFollow it with: navarch status --watch")
        return
    limit = within or session.timeout_or(WAIT_TIMEOUT)
    pool = session.call_without_timeout(lambda api: _come_up(session, api, capacity, limit))
    session.show(pool, lambda _: _risen(pool))


async def _come_up(
    session: Session, api: FleetApi, capacity: Capacity, limit: timedelta
) -> PoolView:
    asked = await api.up(capacity)
    click.echo(_asked(asked), err=True)
    pool = await wait_until_up(session, api, capacity.name, within=limit)
    if pool is None:
        raise CommandError(await _shortfall(api, capacity.name, limit))
    return pool


async def _shortfall(api: FleetApi, name: PoolName, limit: timedelta) -> str:
    pool = await api.get_pool(name)
    reason = f": {pool.note}" if pool.note else ""
    return (
        f"{name} has {pool.serving} of {count(pool.size, 'node')} after "
        f"{exact_duration(limit)}{reason}; it goes on trying, `navarch why {name}` tells more"
    )


def _asked(pool: PoolView) -> str:
    best = pool.spec.offerings[0]
    total = price(best.price_per_hour * pool.size)
    gang = f", {pool.spec.gang} together or none" if pool.spec.gang else ""
    return f"Pool {pool.spec.name}: {pool.size} x {offer(best)}, {total}/h in all{gang}"


def _risen(pool: PoolView) -> str:
    gpus = pool.spec.offerings[0].gpus * pool.size
    name = pool.spec.name
    return (
        f"Pool {name} is up: {count(pool.serving, 'node')}, {count(gpus, 'GPU')}, "
        f"{price(pool.price_per_hour)}/h\n"
        f"Next: navarch list --pool {name}\n"
        f"      navarch ssh NODE\n"
        f"      navarch down {name}"
    )
