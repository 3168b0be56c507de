"""Nodes whose GPUs can be had for much less."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from navarch.core.disruption import Cause
from navarch.core.node import Node
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.fleet.disruption.candidate import Candidate


def costly(pool: Pool, nodes: Iterable[Node], for_sale: Offering | None) -> Iterator[Candidate]:
    """Yield the nodes that `for_sale`, what the pool would buy now, undercuts, dearest first.

    Prices compare by the GPU. Where either price is not known nothing is replaced.
    """
    savings_min = pool.disruption.savings_min
    if savings_min is None or for_sale is None or _has_no_price(for_sale):
        return
    new = _per_gpu(for_sale.price_per_hour, for_sale)
    priced = [(_per_gpu(x.launch.price_per_hour, x.launch.offering), x) for x in nodes if x.launch]
    for old, node in sorted(priced, key=lambda pair: (-pair[0], pair[1].id)):
        if new < old and new <= old * (1 - Decimal(str(savings_min))):
            reason = f"costly: {old:.2f} per GPU and hour, {for_sale} costs {new:.2f}"
            yield Candidate(node=node.id, cause=Cause.COSTLY, reason=reason)


def _has_no_price(offering: Offering) -> bool:
    # What is reserved may well cost nothing more; anything else without a price is not known.
    return offering.price_per_hour <= 0 and not offering.reservation


def _per_gpu(price_per_hour: Decimal, offering: Offering) -> Decimal:
    return price_per_hour / max(offering.gpus, 1)
