"""`navarch pool`: list, create, scale and delete pools."""

import functools
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, InvalidOperation

import click

from navarch.cli.commands import Group
from navarch.cli.completion import complete_pool
from navarch.cli.confirm import yes_option
from navarch.cli.errors import NOT_ALLOWED, CommandError
from navarch.cli.options import duration, label, setup_options
from navarch.cli.render.pools import render_pool, render_pools
from navarch.cli.render.table import count
from navarch.cli.session import Session, with_session
from navarch.cli.up import down
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.autoscaling import (
    Autoscaling,
    CostAwareSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
)
from navarch.core.errors import NotFoundError
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.machine_setup import MachineSetup
from navarch.ports.api import FleetApi, PoolSpec, PoolView

BY_HAND = "by hand"

STRATEGIES = {
    "cost-aware": Autoscaling(cost_aware=CostAwareSettings()),
    "predictive": Autoscaling(predictive=PredictiveSettings()),
    "queue": Autoscaling(queue=QueueSettings()),
    "reactive": Autoscaling(reactive=ReactiveSettings()),
}
"""Strategies that need no settings; configuration files and the API offer the others."""


@click.group("pool", cls=Group)
def pool() -> None:
    """List, create, scale and delete pools."""


@pool.command("list")
@watch_option
@with_session
def list_pools(session: Session, watch: bool) -> None:
    """List pools with their sizes and what they are waiting for."""
    show_or_watch(session, lambda api: api.list_pools(), render_pools, watch=watch)


@pool.command("get")
@click.argument("name", shell_complete=complete_pool)
@with_session
def get(session: Session, name: str) -> None:
    """Show one pool."""
    session.show_call(lambda api: api.get_pool(PoolName(name)), lambda view, _: render_pool(view))


@pool.command("scale")
@click.argument("name", shell_complete=complete_pool)
@click.argument("nodes", type=click.IntRange(min=0))
@click.option("--reason", default=BY_HAND, help="Reason, recorded in the journal.")
@with_session
def scale(session: Session, name: str, nodes: int, reason: str) -> None:
    """Set the number of nodes, within the pool's bounds."""
    view = session.call(lambda api: api.scale(PoolName(name), nodes, reason=reason))
    session.show(view, lambda _: f"Pool {name} scaled to {count(view.size, 'node')}")


def hourly(text: str) -> Decimal:
    """Return a price option's value, or raise BadParameter."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise click.BadParameter(f"{text!r} is not a price such as 98.32")
    return amount


OFFERING_OPTIONS = (
    click.option("--provider", required=True, help="Provider to launch at."),
    click.option("--type", "instance_type", required=True, help="The provider's instance type."),
    click.option("--region", default="", help="Region."),
    click.option("--zone", default="", help="Zone."),
    click.option("--spot", is_flag=True, help="Use spot machines."),
    click.option("--reservation", default="", help="Capacity reservation to use."),
    click.option("--gpus", type=click.IntRange(min=0), default=8, help="GPUs per machine.  [8]"),
    click.option("--gpu-type", default="", help="GPU type: h100, a100, ..."),
    click.option(
        "--price", type=hourly, default="0", metavar="DOLLARS", help="Price per machine and hour."
    ),
)


def offering_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a machine; `command` receives them as one offering."""

    @functools.wraps(command)
    def with_offering(
        *arguments: object,
        provider: str,
        instance_type: str,
        region: str,
        zone: str,
        spot: bool,
        reservation: str,
        gpus: int,
        gpu_type: str,
        price: Decimal,
        **options: object,
    ) -> None:
        offering = Offering(
            provider=ProviderName(provider),
            instance_type=instance_type,
            region=region,
            zone=zone,
            spot=spot,
            reservation=reservation,
            gpus=gpus,
            gpu_type=gpu_type,
            price_per_hour=price,
        )
        command(*arguments, offering=offering, **options)

    for option in reversed(OFFERING_OPTIONS):
        with_offering = option(with_offering)
    return with_offering


@pool.command("create")
@click.argument("name")
@offering_options
@click.option(
    "--min", "nodes_min", type=click.IntRange(min=0), default=0, help="Minimum number of nodes."
)
@click.option(
    "--max", "nodes_max", type=click.IntRange(min=0), required=True, help="Maximum number of nodes."
)
@click.option(
    "--nodes", type=click.IntRange(min=0), help="Initial number of nodes.  [default: --min]"
)
@click.option(
    "--gang",
    type=click.IntRange(min=1),
    metavar="N",
    help="Launch N nodes together in one network block: all or none.",
)
@click.option(
    "--gang-hold", type=duration, default="10m", help="How long to keep an incomplete gang.  [10m]"
)
@click.option(
    "--label", "labels", type=label, multiple=True, help="Label of the nodes. Repeatable."
)
@click.option(
    "--ssh-key", "ssh_keys", multiple=True, help="Public key, or name of a key. Repeatable."
)
@setup_options
@click.option("--auto-replace/--no-auto-replace", default=True, help="Replace unhealthy nodes.")
@click.option(
    "--unhealthy-after",
    type=click.IntRange(min=1),
    default=2,
    help="Replace a node after this many unhealthy verdicts in a row.  [2]",
)
@click.option(
    "--silent-after",
    type=duration,
    default="10m",
    help="Replace a node without heartbeats after this long.  [10m]",
)
@click.option(
    "--boot-deadline", type=duration, default="10m", help="Time limit for registration.  [10m]"
)
@click.option("--drain-timeout", type=duration, default="5m", help="Time limit for draining.  [5m]")
@click.option(
    "--autoscaling",
    "strategy",
    type=click.Choice(sorted(STRATEGIES)),
    help="Autoscaling strategy, with default settings.  [default: none]",
)
@click.option(
    "--cooldown", type=duration, default="5m", help="Minimum time between changes of size.  [5m]"
)
@click.option(
    "--scale-down-after",
    type=duration,
    default="5m",
    help="Scale down after low utilization for this long.  [5m]",
)
@click.option("--reason", default=BY_HAND, help="Reason, recorded in the journal.")
@with_session
def create(
    session: Session,
    name: str,
    offering: Offering,
    nodes_min: int,
    nodes_max: int,
    nodes: int | None,
    gang: int | None,
    gang_hold: timedelta,
    labels: tuple[tuple[str, str], ...],
    ssh_keys: tuple[str, ...],
    setup: MachineSetup | None,
    auto_replace: bool,
    unhealthy_after: int,
    silent_after: timedelta,
    boot_deadline: timedelta,
    drain_timeout: timedelta,
    strategy: str | None,
    cooldown: timedelta,
    scale_down_after: timedelta,
    reason: str,
) -> None:
    """Create a pool of machines of one instance type.

    `navarch up` is simpler if any machine with the right GPUs will do.
    """
    if not nodes_min <= (nodes_min if nodes is None else nodes) <= nodes_max:
        raise click.UsageError("--nodes must be between --min and --max")
    spec = PoolSpec(
        name=PoolName(name),
        offerings=(offering,),
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        nodes_wanted=nodes,
        labels=dict(labels),
        ssh_keys=ssh_keys,
        setup=setup or MachineSetup(),
        auto_replace=auto_replace,
        unhealthy_after=unhealthy_after,
        silent_after=silent_after,
        boot_deadline=boot_deadline,
        drain_timeout=drain_timeout,
        autoscaling=STRATEGIES[strategy] if strategy else None,
        cooldown=cooldown,
        shrink_after=scale_down_after,
        gang=gang or 0,
        gang_hold=gang_hold,
    )
    view = session.call(lambda api: _create(api, spec, reason))
    session.show(view, lambda _: f"Pool {name} created with {count(view.size, 'node')}")


async def _create(api: FleetApi, spec: PoolSpec, reason: str) -> PoolView:
    try:
        await api.get_pool(spec.name)
    except NotFoundError:
        return await api.put_pool(spec, reason=reason)
    raise CommandError(
        f"pool {spec.name} already exists; change its size with: "
        f"navarch pool scale {spec.name} NODES",
        NOT_ALLOWED,
    )


@pool.command("delete")
@click.argument("name", shell_complete=complete_pool)
@click.option("--wait/--no-wait", default=False, help="Wait until every machine is terminated.")
@click.option("--reason", default="deleted by hand", help="Reason, recorded in the journal.")
@yes_option
@click.pass_context
def delete(context: click.Context, name: str, wait: bool, reason: str, yes: bool) -> None:
    """Drain a pool's nodes, terminate its machines, and delete the pool.

    On a terminal the command shows what it terminates, and asks first.
    """
    context.invoke(down, name=name, wait=wait, reason=reason, within=None, yes=yes)
