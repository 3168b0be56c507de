"""`navarch offers`: GPU offers of all providers, with prices and stock."""

import click

from navarch.cli.commands import Command
from navarch.cli.render.offers import render_offers
from navarch.cli.session import Session, with_session


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
