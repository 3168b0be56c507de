"""From a wish for GPUs to a pool of machines."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from navarch.catalogue.gpus import machines_for_gpus
from navarch.core.errors import InvalidError
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.ports.api import Capacity, PoolSpec
from navarch.service.offers import fits
from navarch.service.views import pool_spec

GPUS_MAX = 1_000_000


def plan_capacity(
    capacity: Capacity, offerings: Sequence[Offering], before: Pool | None
) -> PoolSpec:
    """Return the cheapest pool that holds the GPUs asked for, in whole machines.

    Machines that hold just so many come before several smaller ones, whatever those cost.
    A pool that exists keeps its kind of machine: its nodes are counted, not their GPUs.
    Dearer offerings of the same size stay on its list, for when the cheapest is sold out.
    One machine above the size is allowed, so that a broken node is replaced before it goes; with
    gangs one gang, so that it can move as a whole when its block has no room for a successor.
    What an autoscaler may grow a pool to is not lowered: the GPUs asked for are a floor for it.
    The maximum stays within the limit of nodes per pool.
    """
    if not 1 <= capacity.gpus <= GPUS_MAX:
        raise InvalidError(f"gpus: must be 1 to {GPUS_MAX}, not {capacity.gpus}")
    if capacity.gang < 0:
        raise InvalidError("gang: must not be negative")
    known = before if before is not None and not before.deleted else None
    fitting = [x for x in offerings if _fits(x, capacity) and (not known or _is_alike(x, known))]
    fitting = sorted(
        machines_for_gpus(fitting, capacity.gpus, lambda offering: offering.gpus),
        key=lambda offering: (_total(offering, capacity.gpus), -offering.gpus, str(offering)),
    )
    if not fitting:
        raise InvalidError(_nothing_fits(capacity, offerings))
    best = fitting[0]
    nodes = _machines(best, capacity.gpus)
    gang = capacity.gang or (known.gang if known else 0)
    if gang:
        nodes = -(-nodes // gang) * gang
    if nodes > NODES_PER_POOL_MAX:
        raise InvalidError(
            f"gpus: {capacity.gpus} GPUs take {nodes} nodes of type {best.instance_type}, which is "
            f"above the limit of {NODES_PER_POOL_MAX} nodes per pool; ask for fewer, or use "
            "several pools"
        )
    nodes_max = nodes + max(gang, 1)
    if known and known.autoscaling:
        nodes_max = max(nodes_max, known.nodes_max)
    nodes_max = min(nodes_max, NODES_PER_POOL_MAX)
    same_size = tuple(offering for offering in fitting if offering.gpus == best.gpus)
    blank = PoolSpec(name=capacity.name, offerings=same_size, nodes_min=nodes, nodes_max=nodes_max)
    return replace(
        pool_spec(known) if known else blank,
        offerings=same_size,
        nodes_min=nodes,
        nodes_max=nodes_max,
        nodes_wanted=nodes,
        gang=gang,
    )


def _fits(offering: Offering, capacity: Capacity) -> bool:
    return (
        fits(offering, capacity.gpu_type)
        and capacity.provider in (None, offering.provider)
        and capacity.region in (None, offering.region)
        and (capacity.spot or not offering.spot)
    )


def _is_alike(offering: Offering, pool: Pool) -> bool:
    model = pool.offerings[0]
    return (offering.gpus, offering.gpu_type) == (model.gpus, model.gpu_type)


def _machines(offering: Offering, gpus: int) -> int:
    return -(-gpus // offering.gpus)


def _total(offering: Offering, gpus: int) -> Decimal:
    return offering.price_per_hour * _machines(offering, gpus)


def _nothing_fits(capacity: Capacity, offerings: Sequence[Offering]) -> str:
    known = sorted({offering.gpu_type for offering in offerings if offering.gpu_type})
    if not known:
        return "gpu_type: no provider says what it sells; create a pool with `navarch pool create`"
    return f"gpu_type: nobody offers {capacity.gpu_type!r} as asked; there is {', '.join(known)}"
