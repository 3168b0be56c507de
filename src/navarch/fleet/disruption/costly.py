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
    new = _per_gpu(for_sale.price_per_hour, for_sale)
    priced = [(_per_gpu(x.launch.price_per_hour, x.launch.offering), x) for x in nodes if x.launch]
    for old, node in sorted(priced, key=lambda pair: (-pair[0], pair[1].id)):
        if _saves_enough(pool, old, new, for_sale):
            reason = f"costly: {old:.2f} per GPU and hour, {for_sale} costs {new:.2f}"
        elif _fell_back(pool, node, for_sale) and (_has_no_price(for_sale) or new < old):
            reason = f"costly: bought on demand, and {for_sale} is available as a spot machine"
        else:
            continue
        # Another offering might save nothing, and the node would be replaced again.
        yield Candidate(node=node.id, cause=Cause.COSTLY, reason=reason, successor=for_sale)


def may_be_undercut(pool: Pool) -> bool:
    """Return whether the market can give a reason to replace nodes of `pool`."""
    return pool.disruption.savings_min is not None or _prefers_spot(pool)


def _saves_enough(pool: Pool, old: Decimal, new: Decimal, for_sale: Offering) -> bool:
    savings_min = pool.disruption.savings_min
    if savings_min is None or _has_no_price(for_sale):
        return False
    return new < old and new <= old * (1 - Decimal(str(savings_min)))


def _fell_back(pool: Pool, node: Node, for_sale: Offering) -> bool:
    assert node.launch is not None, node.id
    bought = node.launch.offering
    usual = not bought.spot and not bought.reservation
    unsaid = pool.disruption.savings_min is None
    return unsaid and for_sale.spot and usual and _prefers_spot(pool)


def _prefers_spot(pool: Pool) -> bool:
    """Return whether the pool lists spot machines first, and others to fall back to."""
    listed = [offering.spot for offering in pool.offerings if not offering.reservation]
    return any(listed[:1]) and not all(listed)


def _has_no_price(offering: Offering) -> bool:
    # A reservation may cost nothing extra; any other zero price is unknown.
    return offering.price_per_hour <= 0 and not offering.reservation


def _per_gpu(price_per_hour: Decimal, offering: Offering) -> Decimal:
    return price_per_hour / max(offering.gpus, 1)
