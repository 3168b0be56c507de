"""Offers that fit a request for GPUs, and the pool that fulfils one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from navarch.catalogue.gpu_types import ambiguous_models, parse_gpu_type, parse_words
from navarch.catalogue.machines import machines_for_gpus
from navarch.control.pools.ledger import Ledger
from navarch.core.budget import Budget, month_start
from navarch.core.errors import InvalidError
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.money.books import Account, forecast
from navarch.ports.api import BudgetView, Capacity, CostBy, CostLine, CostReport, Offer, PoolSpec
from navarch.service.views import pool_spec

Closed = Callable[[Offering], tuple[str, datetime] | None]
"""Returns why an offering is not available, and until when; None if it is."""

GPUS_MAX = 1_000_000


def filter_offers(
    offers: Sequence[Offer],
    pools: Iterable[Pool],
    closed: Closed,
    *,
    gpu_type: str = "",
    gpus: int = 0,
    provider: str | None = None,
    region: str | None = None,
) -> list[Offer]:
    """Return the offers that fit, by the total price of the GPUs; unknown prices come last."""
    if not 0 <= gpus <= GPUS_MAX:
        raise InvalidError(f"gpus: must be 0 to {GPUS_MAX}, not {gpus}")
    known = [
        offer
        for offer in _with_pools(offers, pools)
        if provider in (None, offer.offering.provider, offer.provider_type)
        and region in (None, offer.offering.region)
    ]
    fitting = [offer for offer in known if fits(offer.offering, gpu_type)]
    if not fitting:
        _check_unambiguous(gpu_type, (offer.offering for offer in known))
    if gpus:
        fitting = machines_for_gpus(fitting, gpus, lambda offer: offer.offering.gpus)
    found: list[Offer] = []
    for offer in fitting:
        machines = _machines(offer.offering, gpus) if gpus else offer.machines
        refusal = closed(offer.offering) if offer.configured else None
        sold_out, until = refusal or (offer.sold_out, offer.sold_out_until)
        found.append(evolve(offer, machines=machines, sold_out=sold_out, sold_out_until=until))
    return sorted(found, key=_order)


def fits(offering: Offering, gpu_type: str) -> bool:
    """Return whether an offering is of the requested type; an empty type fits all."""
    if offering.gpus <= 0:
        return False
    wanted = parse_gpu_type(gpu_type)
    return not gpu_type or wanted.covers(offering.gpu_type, offering.gpus, offering.instance_type)


def _with_pools(offers: Sequence[Offer], pools: Iterable[Pool]) -> list[Offer]:
    """Return the offers, with the offerings of pools, which have zones and reservations.

    An offer without a region is dropped if the same type is offered with one.
    """
    by_type = {_kind(offer.offering): offer for offer in offers}
    known = {offer.offering for offer in offers}
    more = []
    for pool in pools:
        for offering in () if pool.deleted else pool.offerings:
            if offering not in known:
                known.add(offering)
                alike = by_type.get(_kind(offering), Offer(offering=offering))
                more.append(evolve(alike, offering=offering, configured=True))
    everything = (*offers, *more)
    placed = {_kind(offer.offering) for offer in everything if offer.offering.region}
    return [
        offer
        for offer in everything
        if offer.offering.region
        or offer.offering.reservation
        or _kind(offer.offering) not in placed
    ]


def _kind(offering: Offering) -> tuple[str, str, bool]:
    return offering.provider, offering.instance_type, offering.spot


def _order(offer: Offer) -> tuple[bool, Decimal, str, str]:
    offering = offer.offering
    total = offering.price_per_hour * offer.machines
    # An unknown price is not a low one.
    unknown = offering.price_per_hour == 0 and not offering.reservation
    return unknown, total, str(offering), offering.capacity_type


def plan_capacity(
    capacity: Capacity,
    offerings: Sequence[Offering],
    before: Pool | None,
    *,
    keep_offerings: bool = False,
) -> PoolSpec:
    """Return the cheapest pool that holds the requested GPUs, in whole machines.

    With `keep_offerings`, which is right for a pool of the configuration file, an existing pool
    keeps its offerings and bounds, and only its size changes.

    One machine with exactly that many GPUs is preferred to several smaller ones, at any price.
    An existing pool keeps its type of machine. More expensive offerings of the same size stay on
    the list, for when the cheapest is sold out. The maximum is one machine above the size, so
    that a faulty node is replaced before it is terminated; with gangs it is one gang above, so
    that a gang can move as a whole. The maximum of an autoscaled pool is not lowered: the
    requested GPUs are its minimum. The maximum never exceeds the limit of nodes per pool.
    """
    if not 1 <= capacity.gpus <= GPUS_MAX:
        raise InvalidError(f"gpus: must be 1 to {GPUS_MAX}, not {capacity.gpus}")
    if capacity.gang < 0:
        raise InvalidError("gang: must not be negative")
    known = before if before is not None and not before.deleted else None
    if known is not None and keep_offerings:
        return _resize(capacity, known)
    fitting = _cheapest_first(capacity, offerings, known)
    best = fitting[0]
    gang = capacity.gang or (known.gang if known else 0)
    nodes = _nodes(best, capacity.gpus, gang)
    if nodes > NODES_PER_POOL_MAX:
        raise InvalidError(
            f"gpus: {capacity.gpus} GPUs take {nodes} nodes of type {best.instance_type}, which is "
            f"above the limit of {NODES_PER_POOL_MAX} nodes per pool; request fewer, or use "
            "several pools"
        )
    nodes_max = nodes + max(gang, 1)
    if known and known.autoscaling:
        nodes_max = max(nodes_max, known.nodes_max)
    nodes_max = min(nodes_max, NODES_PER_POOL_MAX)
    chosen = tuple(offering for offering in fitting if offering.gpus == best.gpus)
    blank = PoolSpec(
        name=capacity.name,
        offerings=chosen,
        nodes_min=nodes,
        nodes_max=nodes_max,
        ssh_keys=(capacity.own_key,) if capacity.own_key else (),
    )
    spec = pool_spec(known) if known else blank
    return replace(
        spec,
        offerings=chosen,
        nodes_min=nodes,
        nodes_max=nodes_max,
        nodes_wanted=nodes,
        gang=gang,
        setup=capacity.setup or spec.setup,
        ssh_keys=capacity.ssh_keys or spec.ssh_keys,
    )


def _resize(capacity: Capacity, pool: Pool) -> PoolSpec:
    """Return a pool of the configuration file with another size, within the bounds of the file."""
    if capacity.setup is not None:
        raise InvalidError(
            f"setup: the set-up of pool {capacity.name} is in the configuration file of the "
            "server; change it there"
        )
    if capacity.ssh_keys:
        raise InvalidError(
            f"ssh_keys: the keys of pool {capacity.name} are in the configuration file of the "
            "server; change them there"
        )
    best = _requested_offering(capacity, pool)
    gang = capacity.gang or pool.gang
    nodes = _nodes(best, capacity.gpus, gang)
    if nodes > pool.nodes_max:
        raise InvalidError(
            f"gpus: {capacity.gpus} GPUs take {nodes} nodes of type {best.instance_type}, and pool "
            f"{pool.name} of the configuration file has max_nodes: {pool.nodes_max}; request at "
            f"most {pool.nodes_max * best.gpus} GPUs, or change the file"
        )
    return replace(pool_spec(pool), nodes_wanted=max(nodes, pool.nodes_min), gang=gang)


def _requested_offering(capacity: Capacity, pool: Pool) -> Offering:
    """Return the first offering of a pool that is what was requested, or raise InvalidError."""
    for offering in pool.offerings:
        if _is_requested(offering, capacity):
            return offering
    own = " or ".join(dict.fromkeys(str(offering) for offering in pool.offerings))
    raise InvalidError(
        f"gpu_type: pool {pool.name} of the configuration file holds {own}, which does not match "
        "the request; request its type of machine, or use another name"
    )


def _is_requested(offering: Offering, capacity: Capacity) -> bool:
    """Return whether an offering of a pool is what a request names.

    The file may give no model of GPU; the name of the instance type is then taken for it.
    """
    wanted = capacity.gpu_type.strip().lower()
    model = offering.gpu_type or offering.instance_type
    return (
        (
            wanted in ("", offering.instance_type.lower())
            or parse_words(wanted).covers(model, offering.gpus)
        )
        and capacity.provider in (None, offering.provider)
        and capacity.region in (None, offering.region)
    )


def _cheapest_first(
    capacity: Capacity, offerings: Sequence[Offering], known: Pool | None
) -> list[Offering]:
    """Return the offerings that fit, or raise InvalidError if there are none."""
    fitting = [x for x in offerings if _fits(x, capacity) and (not known or _is_alike(x, known))]
    if not fitting:
        raise InvalidError(_nothing_fits(capacity, offerings))
    return sorted(
        machines_for_gpus(fitting, capacity.gpus, lambda offering: offering.gpus),
        key=lambda offering: (_total(offering, capacity.gpus), -offering.gpus, str(offering)),
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


def _nodes(offering: Offering, gpus: int, gang: int) -> int:
    """Return the number of nodes for GPUs, in whole gangs."""
    nodes = _machines(offering, gpus)
    return -(-nodes // gang) * gang if gang else nodes


def _total(offering: Offering, gpus: int) -> Decimal:
    return offering.price_per_hour * _machines(offering, gpus)


def _nothing_fits(capacity: Capacity, offerings: Sequence[Offering]) -> str:
    """Return why no offering fits, with what is on offer instead."""
    known = sorted({offering.gpu_type for offering in offerings if offering.gpu_type})
    if not known:
        return "gpu_type: no provider lists what it sells; create a pool with `navarch pool create`"
    for field, wanted in (("provider", capacity.provider), ("region", capacity.region)):
        names = sorted({getattr(offering, field) for offering in offerings} - {""})
        if wanted is not None and wanted not in names:
            return f"{field}: nothing is on offer at {wanted!r}; available: {', '.join(names)}"
    _check_unambiguous(capacity.gpu_type, offerings)
    return (
        f"gpu_type: no matching offer of {capacity.gpu_type!r}; available: {', '.join(known)}. "
        "`navarch offers --mine` lists also what is sold out"
    )


def _check_unambiguous(gpu_type: str, offerings: Iterable[Offering]) -> None:
    """Raise InvalidError if a text may mean several of the models on offer."""
    models = ambiguous_models(gpu_type, (offering.gpu_type for offering in offerings))
    if models:
        raise InvalidError(f"gpu_type: {gpu_type!r} may be any of {', '.join(models)}; name one")


async def cost_report(
    ledger: Ledger,
    budgets: Iterable[Budget],
    *,
    by: CostBy,
    since: datetime | None,
    now: datetime,
) -> CostReport:
    """Return the cost of each group since `since`, by default since the month began."""
    month_began = month_start(now)
    begin = month_began if since is None else since
    shown = await ledger.accounts(by, since=begin, until=now)
    month = await ledger.accounts(by, since=month_began, until=now)
    lines = tuple(
        _line(name, account, month.get(name, Account()), now) for name, account in shown.items()
    )
    total = sum(shown.values(), Account())
    return CostReport(
        by=by,
        since=begin,
        until=now,
        lines=lines,
        total=_line("total", total, sum(month.values(), Account()), now),
        budgets=tuple(
            BudgetView(
                name=str(each.budget),
                limit_per_month=each.budget.limit_per_month,
                spent=each.spent(now),
                forecast=each.forecast(now),
                when_spent=each.budget.when_spent,
                level=str(each.level(now)),
            )
            for each in await ledger.spendings(budgets, now=now)
        ),
    )


def _line(name: str, account: Account, month: Account, now: datetime) -> CostLine:
    return CostLine(
        name=name,
        machines=account.machines,
        running=account.running,
        machine_time=account.machine_time,
        spent=account.spent,
        per_hour=account.per_hour,
        forecast=forecast(month.spent, month.per_hour, now),
    )
