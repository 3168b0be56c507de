"""`navarch offers`: where GPUs can be had, for how much, and what is sold out."""

import click

from navarch.cli.commands import Command
from navarch.cli.render.offers import render_offers
from navarch.cli.session import Session, with_session


@click.command("offers", cls=Command)
@click.option("--gpus", type=click.IntRange(min=1), default=None, help="How many, at least.")
@click.option("--type", "gpu_type", default="", help="Of which type: h100, h100-8x, ...")
@click.option("--provider", help="Only at this provider, by name or type.")
@click.option("--region", help="Only in this region.")
@click.option("--spot/--no-spot", default=True, help="Also machines that may be taken back.")
@click.option("--mine", is_flag=True, help="Only where there is an account.")
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
    """Show where GPUs can be had, cheapest first, and what is sold out now.

    The GPUs are counted in whole machines: those that hold just so many, if there are any.
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
