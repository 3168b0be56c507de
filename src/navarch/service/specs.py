"""What operators ask of pools: checked, and turned into records."""

from collections.abc import Collection
from dataclasses import fields
from datetime import timedelta

from navarch.core.disruption import Disruption, window
from navarch.core.errors import InvalidError
from navarch.core.offering import Offering
from navarch.core.pool import Pool, is_pool_name
from navarch.core.remediation import Remediation
from navarch.core.schedule import is_time_zone
from navarch.health.conditions import TIMES_MAX
from navarch.ports.api import PoolSpec
from navarch.service.autoscaling import check_autoscaling
from navarch.service.limits import check_nodes

_DURATIONS = (
    "silent_after",
    "boot_deadline",
    "drain_timeout",
    "cooldown",
    "shrink_after",
    "gang_hold",
)


def check_spec(spec: PoolSpec) -> None:
    """Raise InvalidError, naming the field, if no pool can be made of `spec`."""
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
            raise InvalidError(f"{name}: nodes come {spec.gang} together, so {nodes} cannot be had")


def check_strategy(remediation: Remediation, known: Collection[str]) -> None:
    """Raise InvalidError for a remediation that nobody here can carry out."""
    if remediation.strategy and remediation.strategy not in known:
        raise InvalidError(
            f"remediation.strategy: {remediation.strategy!r} is not known; known are "
            f"{', '.join(known)}"
        )
    if remediation.reboot_deadline <= timedelta(0):
        raise InvalidError("remediation.reboot_deadline: must be longer than nothing")


def _check_disruption(disruption: Disruption) -> None:
    if disruption.lifetime_max is not None and disruption.lifetime_max <= timedelta(0):
        raise InvalidError("disruption.lifetime_max: must be longer than nothing")
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
                f"disruption.budgets.time_zone: there is no {budget.time_zone!r}; "
                "write one like Europe/Berlin"
            )


def _check_offering(offering: Offering) -> None:
    if not offering.instance_type:
        raise InvalidError("offerings: instance_type is required")
    if not offering.provider:
        raise InvalidError("offerings: provider is required")
    if offering.gpus < 0 or not offering.price_per_hour.is_finite() or offering.price_per_hour < 0:
        raise InvalidError(f"offerings: {offering.instance_type}: impossible gpus or price")
    _check_reservation(offering)


def _check_reservation(offering: Offering) -> None:
    name = f"offerings: {offering.instance_type}"
    if offering.reservation and offering.spot:
        raise InvalidError(f"{name}: a machine is reserved or spot, not both")
    if offering.reserved_nodes is not None and not offering.reservation:
        raise InvalidError(f"{name}: reserved_nodes without a reservation")
    if offering.reserved_nodes is not None and offering.reserved_nodes < 1:
        raise InvalidError(f"{name}: reserved_nodes must be 1 or more")


def comes_up_differently(before: Pool, after: Pool) -> bool:
    """Return whether anything has changed that decides whether machines come up."""
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("offerings", "user_data", "ssh_keys", "boot_deadline")
    )


def pool_from(spec: PoolSpec, before: Pool | None) -> Pool:
    """Return the pool that `spec` makes of the one `before`.

    The counter of names goes on where it was, and so does the size that was last asked
    for, unless `spec` asks for another or no longer allows it.
    """
    asked = {field.name: getattr(spec, field.name) for field in fields(spec)}
    if asked["nodes_wanted"] is None and before is not None and not before.deleted:
        asked["nodes_wanted"] = before.nodes_wanted
    wanted = asked["nodes_wanted"]
    if wanted is not None:
        asked["nodes_wanted"] = min(max(wanted, spec.nodes_min), spec.nodes_max)
    return Pool(
        **asked,
        next_index=before.next_index if before else 0,
        scaled_at=before.scaled_at if before else None,
        held=before.held if before and not before.deleted else None,
        unreachable=before.unreachable if before and not before.deleted else False,
        reachable_since=before.reachable_since if before else None,
        braked=before.braked if before and not before.deleted else None,
        brake_released_at=before.brake_released_at if before else None,
    )
