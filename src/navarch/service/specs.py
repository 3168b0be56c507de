"""Specifications of pools: validation, and conversion to records."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from difflib import get_close_matches

from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    ScheduledSettings,
    Window,
    is_time_zone,
)
from navarch.core.bringup import check_template
from navarch.core.disruption import Disruption, window
from navarch.core.errors import InvalidError
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.machine_setup import AgentStart
from navarch.core.pool import Pool, is_pool_name
from navarch.core.records import evolve
from navarch.core.recovery import Remediation
from navarch.health.conditions import TIMES_MAX
from navarch.ports.api import PoolSpec

_DURATIONS = (
    "silent_after",
    "boot_deadline",
    "drain_timeout",
    "cooldown",
    "shrink_after",
    "gang_hold",
)

DEPTH_MAX = 8
"""How deep autoscaling strategies may be nested: more is a mistake or an attack."""


def check_spec(spec: PoolSpec) -> None:
    """Raise InvalidError, naming the field, if `spec` is not valid."""
    if not is_pool_name(spec.name):
        raise InvalidError(
            f"name: {spec.name!r} must be lower-case letters, digits and dashes, begin with a "
            "letter, not end with a dash, and have at most 40 characters"
        )
    if not spec.offerings:
        raise InvalidError("offerings: at least one provider is required")
    _check_sizes(spec)
    _check_gangs(spec)
    if not 1 <= spec.unhealthy_after <= TIMES_MAX:
        raise InvalidError(f"unhealthy_after: must be 1 to {TIMES_MAX}")
    for name in _DURATIONS:
        if getattr(spec, name) < timedelta(0):
            raise InvalidError(f"{name}: must not be negative")
    if spec.spares < 0:
        raise InvalidError("spares: must not be negative")
    _check_disruption(spec.disruption)
    if spec.autoscaling is not None:
        check_autoscaling(spec.autoscaling)
    for offering in spec.offerings:
        _check_offering(offering)
    _check_setup(spec)


def _check_setup(spec: PoolSpec) -> None:
    setup = spec.setup
    if spec.user_data.strip() and setup.agent not in (None, AgentStart.IMAGE):
        raise InvalidError(
            f"user_data: it replaces what starts the agent, and setup.agent is {setup.agent}; "
            "use setup.user_data to add to it"
        )
    if setup.agent is AgentStart.SSH and not setup.commands:
        raise InvalidError("setup.commands: agent ssh needs commands that start the agent")
    if setup.agent is AgentStart.IMAGE and setup.commands:
        raise InvalidError("setup.commands: they do not run with agent image")
    for index, command in enumerate(setup.commands):
        try:
            check_template(command)
        except InvalidError as error:
            raise InvalidError(f"setup.commands[{index}]: {error}") from error
        if not command.strip():
            raise InvalidError(f"setup.commands[{index}]: the command is empty")
    if not setup.user:
        raise InvalidError("setup.user: a name is required")
    if not 1 <= setup.port <= 65535:
        raise InvalidError("setup.port: must be 1 to 65535")
    if not 1 <= setup.attempts_max <= 100:
        raise InvalidError("setup.attempts_max: must be 1 to 100")
    for name in ("address_within", "answer_within", "connect_within", "command_within"):
        if getattr(setup, name) <= timedelta(0):
            raise InvalidError(f"setup.{name}: must be longer than zero")


def _check_sizes(spec: PoolSpec) -> None:
    for name in ("nodes_min", "nodes_max", "nodes_wanted", "spares", "gang"):
        check_nodes(name, getattr(spec, name) or 0)
    if spec.nodes_min < 0:
        raise InvalidError("nodes_min: min_nodes must be >= 0")
    if spec.nodes_max <= 0:
        raise InvalidError("nodes_max: max_nodes must be > 0")
    if spec.nodes_min > spec.nodes_max:
        raise InvalidError("nodes_min: min_nodes cannot exceed max_nodes")
    if spec.nodes_wanted is not None and not spec.nodes_min <= spec.nodes_wanted <= spec.nodes_max:
        raise InvalidError(f"nodes_wanted: must be {spec.nodes_min} to {spec.nodes_max}")


def check_nodes(field: str, nodes: int) -> None:
    """Raise InvalidError, naming the field, if a pool cannot have that many nodes."""
    if nodes > NODES_PER_POOL_MAX:
        raise InvalidError(
            f"{field}: {nodes} is above the limit of {NODES_PER_POOL_MAX} nodes per pool; "
            f"request {NODES_PER_POOL_MAX} or fewer, or use several pools"
        )


def _check_gangs(spec: PoolSpec) -> None:
    if spec.gang < 0:
        raise InvalidError("gang: must not be negative")
    if not spec.gang:
        return
    if spec.gang > spec.nodes_max:
        raise InvalidError(f"gang: {spec.gang} nodes together are more than max_nodes")
    for name in ("nodes_min", "nodes_wanted"):
        nodes = getattr(spec, name)
        if nodes is not None and nodes % spec.gang:
            raise InvalidError(
                f"{name}: nodes come {spec.gang} together, so {nodes} is not possible"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSale:
    """The instance types and regions of a provider; an empty set is unknown, and allows all."""

    instance_types: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    offerings: Sequence[Offering] = ()
    """The same with prices."""
    obstacle: Callable[[Offering, Sequence[str]], str | None] = lambda _offering, _keys: None
    """Returns why the provider would refuse every launch of an offering with these SSH keys."""
    unusable: str = ""
    """Why no call to the provider can succeed: its key is missing or unknown."""


def check_on_sale(
    spec: PoolSpec, pools: Iterable[Pool], on_sale: Mapping[ProviderName, OnSale]
) -> None:
    """Raise InvalidError for what no provider sells, or does not sell to this pool.

    What any pool buys is known: the configuration file may name types that no list contains yet. A
    pool can be changed while its provider is unusable.
    """
    pools = list(pools)
    own = [pool for pool in pools if pool.name == spec.name and not pool.deleted]
    before = [offering for pool in own for offering in pool.offerings]
    bought = [offering for pool in pools if not pool.deleted for offering in pool.offerings]
    for offering in spec.offerings:
        at = offering.provider
        here = [each for each in bought if each.provider == at]
        if at not in on_sale and not here:
            raise InvalidError(_unknown("provider", at, on_sale, "the server's providers are"))
        sold = on_sale.get(at, OnSale())
        # Lists contain machines with GPUs only.
        if sold.instance_types and offering.gpus:
            types = sold.instance_types.union(each.instance_type for each in here)
            if offering.instance_type not in types:
                name = offering.instance_type
                raise InvalidError(_unknown("instance_type", name, types, f"{at} has"))
        if sold.regions and offering.region:
            regions = sold.regions.union(each.region for each in here)
            if offering.region not in regions:
                raise InvalidError(_unknown("region", offering.region, regions, f"{at} has"))
        obstacle = sold.obstacle(offering, spec.ssh_keys)
        if obstacle is not None:
            raise InvalidError(f"pool {spec.name}: {obstacle}")
        if sold.unusable and not any(each.provider == at for each in before):
            raise InvalidError(
                f"pool {spec.name}: {at} accepts no launch: {sold.unusable}; "
                "`navarch doctor --check-credentials` on the server shows what is wrong"
            )


def with_prices(
    spec: PoolSpec, before: Pool | None, on_sale: Mapping[ProviderName, OnSale]
) -> PoolSpec:
    """Return `spec` with the prices that its offerings have at present, where it gives none.

    A pool keeps the prices that it has.
    """
    stored = before.offerings if before is not None else ()
    return replace(
        spec,
        offerings=tuple(
            offering
            if offering.price_per_hour or offering.reservation
            else _priced(offering, [*stored, *on_sale.get(offering.provider, OnSale()).offerings])
            for offering in spec.offerings
        ),
    )


def _priced(offering: Offering, known: Iterable[Offering]) -> Offering:
    """Return `offering` with the price of the first known one that is the same machine there."""
    for other in known:
        kind = (offering.provider, offering.instance_type, offering.spot)
        is_same = (other.provider, other.instance_type, other.spot, other.reservation) == (
            *kind,
            "",
        )
        is_there = all(
            not ours or not theirs or ours == theirs
            for ours, theirs in ((offering.region, other.region), (offering.zone, other.zone))
        )
        if is_same and is_there and other.price_per_hour:
            model = offering.gpu_type or other.gpu_type
            return evolve(offering, price_per_hour=other.price_per_hour, gpu_type=model)
    return offering


NAMES_SHOWN = 12


def _unknown(field: str, name: str, known: Iterable[str], introduction: str) -> str:
    """Return a message with the most similar of the known names first."""
    names = sorted(filter(None, known))
    shown = get_close_matches(name, names, n=NAMES_SHOWN, cutoff=0)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    listed = ", ".join(shown) + more if names else "none"
    return f"offerings: unknown {field} {name!r}; {introduction} {listed}"


def check_strategy(remediation: Remediation, known: Collection[str]) -> None:
    """Raise InvalidError for an unknown remediation strategy."""
    if remediation.strategy and remediation.strategy not in known:
        raise InvalidError(
            f"remediation.strategy: {remediation.strategy!r} is not known; known are "
            f"{', '.join(known)}"
        )
    if remediation.reboot_deadline <= timedelta(0):
        raise InvalidError("remediation.reboot_deadline: must be longer than zero")


def _check_disruption(disruption: Disruption) -> None:
    if disruption.lifetime_max is not None and disruption.lifetime_max <= timedelta(0):
        raise InvalidError("disruption.lifetime_max: must be longer than zero")
    if disruption.empty_after is not None and disruption.empty_after < timedelta(minutes=1):
        raise InvalidError("disruption.empty_after: must be a minute or more")
    if disruption.savings_min is not None and not 0 < disruption.savings_min < 1:
        raise InvalidError("disruption.savings_min: must be between 0 and 1, as in 0.3")
    for budget in disruption.budgets:
        if budget.nodes_max < 0 or not 0 <= budget.share_max <= 1:
            raise InvalidError("disruption.budgets: nodes_max from 0, share_max from 0 to 1")
        if any(not 0 <= day <= 6 for day in budget.days):
            raise InvalidError("disruption.budgets.days: from 0, Monday, to 6, Sunday")
        if budget.hours:
            try:
                window(budget.hours)
            except ValueError as error:
                raise InvalidError(f"disruption.budgets.hours: {error}") from error
        if not is_time_zone(budget.time_zone):
            raise InvalidError(
                f"disruption.budgets.time_zone: unknown time zone {budget.time_zone!r}; "
                "write one like Europe/Berlin"
            )


def _check_offering(offering: Offering) -> None:
    if not offering.instance_type:
        raise InvalidError("offerings: instance_type is required")
    if not offering.provider:
        raise InvalidError("offerings: provider is required")
    if offering.gpus < 0 or not offering.price_per_hour.is_finite() or offering.price_per_hour < 0:
        raise InvalidError(f"offerings: {offering.instance_type}: impossible gpus or price")
    name = f"offerings: {offering.instance_type}"
    if offering.reservation and offering.spot:
        raise InvalidError(f"{name}: a machine is reserved or spot, not both")
    if offering.reserved_nodes is not None and not offering.reservation:
        raise InvalidError(f"{name}: reserved_nodes without a reservation")
    if offering.reserved_nodes is not None and offering.reserved_nodes < 1:
        raise InvalidError(f"{name}: reserved_nodes must be 1 or more")


def comes_up_differently(before: Pool, after: Pool) -> bool:
    """Return whether a change may affect whether machines come up."""
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("offerings", "user_data", "setup", "ssh_keys", "boot_deadline")
    )


def pool_from(spec: PoolSpec, before: Pool | None) -> Pool:
    """Return the pool after `spec` is applied to the one `before`.

    The counter of names continues. So does the size that was last requested, unless `spec`
    requests another or no longer allows it.
    """
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    if values["nodes_wanted"] is None and before is not None and not before.deleted:
        values["nodes_wanted"] = before.nodes_wanted
    wanted = values["nodes_wanted"]
    if wanted is not None:
        values["nodes_wanted"] = min(max(wanted, spec.nodes_min), spec.nodes_max)
    return Pool(
        **values,
        next_index=before.next_index if before else 0,
        scaled_at=before.scaled_at if before else None,
        held=before.held if before and not before.deleted else None,
        unreachable=before.unreachable if before and not before.deleted else False,
        reachable_since=before.reachable_since if before else None,
        braked=before.braked if before and not before.deleted else None,
        brake_released_at=before.brake_released_at if before else None,
    )


def check_autoscaling(autoscaling: Autoscaling, path: str = "autoscaling", depth: int = 1) -> None:
    """Raise InvalidError, naming the field, if `autoscaling` is not valid."""
    if depth > DEPTH_MAX:
        raise InvalidError(f"{path}: nested deeper than {DEPTH_MAX}")
    if len(autoscaling.given) != 1:
        raise InvalidError(f"{path}: give one strategy, not {len(autoscaling.given)}")
    path = f"{path}.{autoscaling.given[0]}"
    match autoscaling.settings:
        case ReactiveSettings(scale_up_at=up, scale_down_at=down):
            _check_percent(up, f"{path}.scale_up_at")
            _check_percent(down, f"{path}.scale_down_at")
            if down >= up:
                raise InvalidError(f"{path}.scale_up_at: must be above scale_down_at")
        case QueueSettings(jobs_per_node=jobs):
            _check_count(jobs, f"{path}.jobs_per_node", least=1)
        case ScheduledSettings() as settings:
            _check_scheduled(settings, path)
            _check_fallback(settings.fallback, path, depth)
        case PredictiveSettings() as settings:
            _check_count(settings.lookback_window, f"{path}.lookback_window", least=2)
            if not 0 < settings.growth_factor <= 100:
                raise InvalidError(f"{path}.growth_factor: must be above 0 and at most 100")
            _check_fallback(settings.fallback, path, depth)
        case CompositeSettings(members=members):
            if not members:
                raise InvalidError(f"{path}.members: at least one is required")
            for index, member in enumerate(members):
                check_autoscaling(member, f"{path}.members[{index}]", depth + 1)
        case CostAwareSettings() as settings:
            _check_zone(settings.time_zone, path)
            _check_percent(settings.scale_up_at, f"{path}.scale_up_at")
            _check_nodes(settings.off_peak_nodes, f"{path}.off_peak_nodes")
            _check_hours(settings.peak_start, settings.peak_end, path, "peak_start")


def _check_scheduled(settings: ScheduledSettings, path: str) -> None:
    _check_zone(settings.time_zone, path)
    if not settings.windows:
        raise InvalidError(f"{path}.windows: at least one is required")
    for index, hours in enumerate(settings.windows):
        _check_window(hours, f"{path}.windows[{index}]")


def _check_fallback(fallback: Autoscaling | None, path: str, depth: int) -> None:
    if fallback is not None:
        check_autoscaling(fallback, f"{path}.fallback", depth + 1)


def _check_window(window: Window, path: str) -> None:
    _check_hours(window.start, window.end, path, "start")
    low, high = window.nodes_min, window.nodes_max
    for name, bound in (("nodes_min", low), ("nodes_max", high)):
        if bound is not None:
            _check_nodes(bound, f"{path}.{name}")
    if low is not None and high is not None and low > high:
        raise InvalidError(f"{path}.nodes_min: cannot exceed nodes_max")


def _check_hours(start: int, end: int, path: str, name: str) -> None:
    if not (0 <= start < 24 and 0 <= end <= 24):
        raise InvalidError(f"{path}.{name}: hours go from 0 to 24")
    if start == end:
        raise InvalidError(f"{path}.{name}: the hours from {start} to {end} are empty")


def _check_zone(zone: str, path: str) -> None:
    if not is_time_zone(zone):
        raise InvalidError(
            f"{path}.time_zone: unknown time zone {zone!r}; write one like Europe/Berlin"
        )


def _check_percent(value: float, path: str) -> None:
    if not (math.isfinite(value) and 0 <= value <= 100):
        raise InvalidError(f"{path}: must be 0 to 100")


def _check_nodes(value: int, path: str) -> None:
    if not 0 <= value <= NODES_PER_POOL_MAX:
        raise InvalidError(
            f"{path}: must be 0 to {NODES_PER_POOL_MAX}, the limit of nodes per pool"
        )


def _check_count(value: int, path: str, *, least: int) -> None:
    if not least <= value <= 1_000_000:
        raise InvalidError(f"{path}: must be {least} to 1000000")
