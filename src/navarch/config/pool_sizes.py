"""The rules between the keys of a pool that bound its size."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.autoscaling import (
    AutoscalingConfig,
    CostAwareConfig,
    ScheduledConfig,
    strategies,
)
from navarch.config.disruption import DisruptionConfig
from navarch.config.schema import Fault
from navarch.core.duration import render_duration


def _node_bounds_are_in_order(min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    if max_nodes <= 0:
        yield Fault(
            "max_nodes must be > 0",
            "write the largest number of nodes, such as max_nodes: 10",
            at=("max_nodes",),
        )
    if min_nodes < 0:
        yield Fault(
            "min_nodes must be >= 0",
            "write min_nodes: 0 for a pool that may be empty",
            at=("min_nodes",),
        )
    elif min_nodes > max_nodes > 0:
        yield Fault(
            "min_nodes cannot exceed max_nodes",
            f"write min_nodes: {max_nodes} or less, or a higher max_nodes",
            at=("min_nodes",),
        )


def _autoscaling_within_bounds(
    autoscaling: AutoscalingConfig | None, min_nodes: int, max_nodes: int
) -> Iterator[Fault]:
    for strategy in strategies(autoscaling):
        for window in strategy.schedule if isinstance(strategy, ScheduledConfig) else ():
            if window.max_nodes is not None and window.max_nodes < min_nodes:
                yield Fault(
                    f"a window allows {window.max_nodes} nodes, "
                    f"but min_nodes is {min_nodes}, which takes precedence",
                    "lower min_nodes, or raise max_nodes of the window",
                    at=("autoscaling",),
                    warning=True,
                )
    for what, key, nodes in _floors(autoscaling):
        if nodes > max_nodes > 0:
            yield Fault(
                f"{what} keeps {nodes} nodes, but max_nodes is {max_nodes}, which takes precedence",
                f"raise max_nodes, or lower {key}",
                at=("autoscaling",),
                warning=True,
            )


def _floors(autoscaling: AutoscalingConfig | None) -> Iterator[tuple[str, str, int]]:
    """Yield the lower bounds of strategies: the source, its key and the number of nodes."""
    for strategy in strategies(autoscaling):
        match strategy:
            case ScheduledConfig(schedule=schedule):
                for window in schedule:
                    yield "a window", "min_nodes of the window", window.min_nodes or 0
            case CostAwareConfig(off_peak_nodes=nodes):
                yield "cost-aware", "off_peak_nodes", nodes


def _sizes_are_multiples_of_gang(
    gang: int, min_nodes: int, max_nodes: int, spares: int
) -> Iterator[Fault]:
    if gang > max_nodes > 0:
        yield Fault(
            f"gang ({gang}) cannot exceed max_nodes ({max_nodes})",
            f"write gang: {max_nodes} or less, or a higher max_nodes",
            at=("gang",),
        )
    elif gang > 0 and min_nodes > 0 and min_nodes % gang:
        yield Fault(
            f"min_nodes ({min_nodes}) is not a multiple of gang ({gang})",
            f"write min_nodes: {min_nodes // gang * gang} or {-(-min_nodes // gang) * gang}",
            at=("min_nodes",),
        )
    elif gang > 0 and spares % gang:
        yield Fault(
            f"spares ({spares}) is not a multiple of gang ({gang})",
            f"write spares: {-(-spares // gang) * gang} for a spare gang, or leave it out",
            at=("spares",),
        )
    if gang < 0:
        yield Fault("gang must be >= 0", "leave gang out to buy nodes one by one", at=("gang",))


def _windows_are_multiples_of_gang(
    gang: int, autoscaling: AutoscalingConfig | None
) -> Iterator[Fault]:
    if gang <= 1 or not isinstance(autoscaling, ScheduledConfig):
        return
    for index, window in enumerate(autoscaling.schedule):
        nodes = window.min_nodes or 0
        if nodes % gang:
            yield Fault(
                f"min_nodes ({nodes}) is not a multiple of gang ({gang})",
                f"write min_nodes: {nodes // gang * gang} or {-(-nodes // gang) * gang}",
                at=("autoscaling", "schedule", index, "min_nodes"),
            )


def _lifetime_exceeds_boot_deadline(
    disruption: DisruptionConfig, boot_deadline: timedelta
) -> Iterator[Fault]:
    lifetime = disruption.lifetime_max
    if lifetime is not None and lifetime < boot_deadline:
        deadline = render_duration(boot_deadline)
        yield Fault(
            f"lifetime_max is shorter than boot_deadline ({deadline}): "
            "a successor could expire before it registers",
            "write hours or days, such as 30d",
            at=("disruption", "lifetime_max"),
        )


def _empty_after_without_autoscaling(
    disruption: DisruptionConfig, autoscaling: AutoscalingConfig | None
) -> Iterator[Fault]:
    if disruption.empty_after is not None and autoscaling is not None:
        yield Fault(
            "empty_after has no effect in a pool with autoscaling",
            "leave one of the two out; scale_down_after delays autoscaling",
            at=("disruption", "empty_after"),
            warning=True,
        )


def _room_for_spares(spares: int, min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    if spares and 0 < max_nodes < min_nodes + spares:
        yield Fault(
            f"max_nodes leaves no room for {spares} spares beside {min_nodes} nodes",
            f"write max_nodes: {min_nodes + spares} or more",
            at=("spares",),
        )


def _room_for_successors(
    disruption: DisruptionConfig, spares: int, min_nodes: int, max_nodes: int
) -> Iterator[Fault]:
    replaces = (
        disruption.lifetime_max is not None
        or disruption.replace_drifted
        or disruption.savings_min is not None
    )
    if replaces and max_nodes > 0 and max_nodes == min_nodes + spares:
        yield Fault(
            "max_nodes leaves no room for a successor, so no healthy node is ever replaced",
            f"write max_nodes: {max_nodes + 1} or more",
            at=("disruption",),
            warning=True,
        )


def _room_for_a_gang(gang: int, spares: int, min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    kept = min_nodes + spares
    if gang > 1 and gang <= kept <= max_nodes < kept + gang:
        yield Fault(
            "max_nodes leaves no room for a gang to move when its block is full: "
            "it then stays without its failed node",
            f"write max_nodes: {kept + gang} or more",
            at=("max_nodes",),
            warning=True,
        )


SIZE_RULES = (
    _node_bounds_are_in_order,
    _autoscaling_within_bounds,
    _sizes_are_multiples_of_gang,
    _windows_are_multiples_of_gang,
    _lifetime_exceeds_boot_deadline,
    _empty_after_without_autoscaling,
    _room_for_spares,
    _room_for_successors,
    _room_for_a_gang,
)
"""The rules between the keys that bound the size of a pool."""
