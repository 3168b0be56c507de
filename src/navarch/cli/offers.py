"""`navarch offers` and `navarch instance`: what providers sell, and what they list."""

import click

from navarch.cli.commands import Command, Group
from navarch.cli.options import labels_option, state_option
from navarch.cli.output import list_all
from navarch.cli.render.offers import render_instance, render_instances, render_offers
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.ids import PoolName
from navarch.core.node import InstanceState
from navarch.ports.api import Query


@click.command("offers", cls=Command)
@click.option("--gpus", type=click.IntRange(min=1), default=None, help="Minimum number of GPUs.")
@click.option("--type", "gpu_type", default="", help="GPU type: h100, h100-8x, ...")
@click.option("--provider", help="Only from this provider, by name or type.")
@click.option("--region", help="Only in this region.")
@click.option("--spot/--no-spot", default=True, help="Include spot machines.")
@click.option("--mine", is_flag=True, help="Only providers with an account.")
@with_session
def offers(
    session: Session,
    gpus: int | None,
    gpu_type: str,
    provider: str | None,
    region: str | None,
    spot: bool,
    mine: bool,
) -> None:
    """List GPU offers, cheapest first, and which are sold out.

    With --gpus, lists machines with exactly that many GPUs if there are any, otherwise several of
    the largest smaller machines.
    """
    found = session.call(
        lambda api: api.offers(gpu_type=gpu_type, gpus=gpus or 0, provider=provider, region=region)
    )
    kept = [
        offer
        for offer in found
        if (offer.configured or not mine) and (spot or not offer.offering.spot)
    ]
    session.show(kept, lambda canvas: render_offers(kept, canvas, wanted=gpu_type))


@click.group("instance", cls=Group)
def instance() -> None:
    """Show machines as their providers list them."""


@instance.command("list")
@click.option("--provider", help="Only from this provider.")
@click.option("--region", help="Only in this region.")
@state_option
@click.option("--pool", help="Only in this pool.")
@labels_option
@click.option("-a", "--all", "include_gone", is_flag=True, help="Include terminated machines.")
@watch_option
@with_session
def list_instances(
    session: Session,
    provider: str | None,
    region: str | None,
    state: InstanceState | None,
    pool: str | None,
    labels: tuple[tuple[str, str], ...],
    include_gone: bool,
    watch: bool,
) -> None:
    """List machines; --all includes terminated ones and failed launches."""
    query = Query(
        provider=provider,
        region=region,
        state=state,
        pool=PoolName(pool) if pool else None,
        labels=dict(labels),
        include_gone=include_gone or state in (InstanceState.TERMINATED, InstanceState.FAILED),
    )
    show_or_watch(
        session, lambda api: list_all(api.list_instances, query), render_instances, watch=watch
    )


@instance.command("get")
@click.argument("name")
@with_session
def get(session: Session, name: str) -> None:
    """Show one machine, by instance id, launch token or node name."""
    session.show_call(lambda api: api.get_instance(name), render_instance)
