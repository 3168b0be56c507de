"""Nodes with GPUs that cost much less elsewhere, or on the terms that the pool prefers."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from navarch.core.disruption import Cause
from navarch.core.launch import Offering
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.plan import Candidate


def costly(pool: Pool, nodes: Iterable[Node], for_sale: Offering | None) -> Iterator[Candidate]:
    """Yield the nodes that `for_sale`, the pool's next purchase, undercuts, dearest first.

    Prices are compared per GPU. Without `savings_min`, a pool that prefers spot machines still
    returns to them, unless they are known to cost no less.
    """
    if for_sale is None:
        return
    savings_min = pool.disruption.savings_min
    # A reservation may cost nothing extra; any other zero price is unknown.
    unpriced = for_sale.price_per_hour <= 0 and not for_sale.reservation
    new = _per_gpu(for_sale.price_per_hour, for_sale)
    priced = []
    for node in nodes:
        if node.launch is not None:
            bought = node.launch.offering
            priced.append((_per_gpu(node.launch.price_per_hour, bought), node.id, bought))
    for old, name, bought in sorted(priced, key=lambda each: (-each[0], each[1])):
        if savings_min is not None:
            saves = new < old and new <= old * (1 - Decimal(str(savings_min)))
            if unpriced or not saves:
                continue
            reason = f"costly: {old:.2f} per GPU and hour, {for_sale} costs {new:.2f}"
        else:
            fell_back = not bought.spot and not bought.reservation
            if not (for_sale.spot and fell_back and _prefers_spot(pool)):
                continue
            if not unpriced and new >= old:
                continue
            reason = f"costly: bought on demand, and {for_sale} is available as a spot machine"
        # Another offering might save nothing, and the node would be replaced again.
        yield Candidate(node=name, cause=Cause.COSTLY, reason=reason, successor=for_sale)


def may_be_undercut(pool: Pool) -> bool:
    """Return whether the market can give a reason to replace nodes of `pool`."""
    return pool.disruption.savings_min is not None or _prefers_spot(pool)


def _prefers_spot(pool: Pool) -> bool:
    """Return whether the pool lists spot machines first, and others to fall back to."""
    listed = [offering.spot for offering in pool.offerings if not offering.reservation]
    return any(listed[:1]) and not all(listed)


def _per_gpu(price_per_hour: Decimal, offering: Offering) -> Decimal:
    return price_per_hour / max(offering.gpus, 1)
