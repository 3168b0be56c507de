"""Disruption: reasons and budgets for replacing nodes, limits of automation, deferred actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import StrEnum

import msgspec

from navarch.core.autoscaling import time_zone, window_day


class Cause(StrEnum):
    """The reason for replacing a node while its pool keeps its size."""

    UNHEALTHY = "unhealthy"
    SPOT_NOTICE = "spot_notice"
    MAINTENANCE = "maintenance"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    COSTLY = "costly"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """The number of nodes of a pool that may be out of use or leaving at once, and its hours.

    The strictest of all budgets that apply counts. Nodes that broke by themselves use a budget
    up like all others, but only a budget that names `unhealthy` defers their replacement.
    """

    nodes_max: int = 1
    share_max: float = 0.1
    """A share of the pool's size; the larger of the two limits counts. Zero and zero: no node."""
    causes: tuple[Cause, ...] = ()
    """Empty: all causes but unhealthy nodes and spot notices, which are never deferred."""
    days: tuple[int, ...] = ()
    """Days of the week on which it applies, Monday is 0; empty: every day."""
    hours: str = ""
    """The hours in which it applies, as `09:00-17:30`; past midnight is allowed, and belongs to
    the day on which it begins. Empty: all day."""
    time_zone: str = "UTC"
    """The time zone of the hours and days."""

    def holds(self, cause: Cause) -> bool:
        """Return whether this budget limits disruptions for `cause`."""
        if self.causes:
            return cause in self.causes
        return cause not in (Cause.UNHEALTHY, Cause.SPOT_NOTICE)

    def applies(self, now: datetime) -> bool:
        """Return whether this budget applies at `now`."""
        local = now.astimezone(time_zone(self.time_zone))
        day: datetime | None = local
        if self.hours:
            day = window_day(local, local.time(), *window(self.hours))
        return day is not None and (not self.days or day.weekday() in self.days)

    def allows(self, size: int) -> int:
        """Return how many nodes of a pool of `size` may be out at once."""
        return max(self.nodes_max, int(size * self.share_max))


def window(hours: str) -> tuple[time, time]:
    """Return the two ends of hours like `22:00-06:00`; ValueError for anything else."""
    begin, dash, end = hours.partition("-")
    if not dash:
        raise ValueError(f"{hours!r} is not like 09:00-17:30")
    return time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """The reasons for replacing sound nodes of a pool, and the limits."""

    budgets: tuple[DisruptionBudget, ...] = ()
    """Empty: one node or a tenth of the pool at once, whichever is more, at any time."""
    lifetime_max: timedelta | None = None
    """Nodes older than this are replaced."""
    replace_drifted: bool = False
    """Whether to replace nodes of a kind or place that the pool no longer lists, and nodes that
    booted with other user data than the pool has now."""
    savings_min: float | None = None
    """Nodes are replaced when the same GPUs cost this share less elsewhere; None: only nodes that
    a pool bought on demand because the spot machines at the top of its list were sold out."""
    empty_after: timedelta | None = None
    """Nodes that were idle for so long are terminated, down to the pool's minimum, in pools
    without an autoscaler; None: never."""


class Domain(StrEnum):
    """A property that nodes share and that can fail for all of them at once."""

    POOL = "pool"
    ZONE = "zone"
    RACK = "rack"
    NVLINK = "nvlink"
    DRIVER = "driver"
    IMAGE = "image"
    FLEET = "fleet"


DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBudget:
    """The number of nodes of one domain that automation may act on, within the window and a day."""

    nodes_min: int = 1
    """The least number of nodes allowed, however small the domain."""
    share_max: float = 0.05
    """A share of the domain's nodes; the larger of the two limits counts."""
    nodes_per_day: int = 5
    """The same for a day: a small pool may lose a few nodes in a day, one after another.

    Of 32 pools of 65 nodes that fail at the published rates, one loses more in a day about once in
    a century.
    """
    share_per_day: float = 0.05

    def allows(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within the window."""
        return max(self.nodes_min, int(size * self.share_max))

    def allows_per_day(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within a day."""
        return max(self.allows(size), self.nodes_per_day, int(size * self.share_per_day))


def default_budgets() -> dict[Domain, DomainBudget]:
    """Return budgets that a healthy fleet never reaches.

    The worst published failure rates are below seven a day in a thousand nodes. Domains that
    several pools share allow three nodes at once, so that small pools do not delay each other.
    """
    return {
        Domain.POOL: DomainBudget(nodes_min=1, share_max=0.05),
        Domain.ZONE: DomainBudget(nodes_min=3, share_max=0.05),
        Domain.RACK: DomainBudget(share_max=0.25, nodes_per_day=3, share_per_day=0.25),
        Domain.NVLINK: DomainBudget(share_max=0.25, nodes_per_day=3, share_per_day=0.25),
        Domain.DRIVER: DomainBudget(nodes_min=3, share_max=0.05),
        Domain.IMAGE: DomainBudget(nodes_min=3, share_max=0.05),
        Domain.FLEET: DomainBudget(nodes_min=3, share_max=0.05),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorSettings:
    """The limits of automation for one fleet."""

    budgets: Mapping[Domain, DomainBudget] = field(default_factory=default_budgets)
    window: timedelta = timedelta(hours=1)
    """The time over which actions are counted."""
    change_window: timedelta = timedelta(hours=24)
    """The time for which a fault counts as evidence of a common cause, and a change as its
    suspect."""
    suspect_nodes: int = 3
    """The least number of nodes with the same fault that may have a common cause."""
    failed_replacements: int = 3
    """How many replacements that fail may be bought for a pool within an hour."""
    failed_replacements_share: float = 0.0
    """The same as a share of the pool's size; the larger of the two limits counts."""

    def failed_replacements_max(self, size: int) -> int:
        """Return how many failed replacements a pool of `size` nodes may buy within an hour."""
        return max(self.failed_replacements, int(size * self.failed_replacements_share))


def default_settings() -> GovernorSettings:
    """Return the settings of a fleet without a configuration for them."""
    return GovernorSettings()


class DeferredBy(StrEnum):
    """The limit that defers an action."""

    BUDGET = "budget"
    """The budget of some domain is spent for now."""
    CHANGE = "change"
    """Nodes with the same driver, image or policy show the same fault, or the check finds it on far
    more nodes than can fail at once: the machines are likely sound."""
    BURST = "burst"
    """The same fault has just appeared on several nodes: a common cause may show within minutes."""
    SILENCE = "silence"
    """The node only does not report, and others stopped with it, or it is known to work: the
    network, its agent or the control plane may be at fault."""
    REPLACEMENT_LOOP = "replacement_loop"
    """The machines that replaced others in the pool became unhealthy as well."""
    DRY_RUN = "dry_run"
    """The pool only records what would be done."""
    REMEDIATOR = "remediator"
    """The pool's remediator failed: nothing is decided until it works again."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True):
    """One deferred action, decided again in every round until it is no longer wanted."""

    action: str
    """The deferred action: cordon, replace or recover; remediate if it is not decided."""
    reason: str
    """The reason for the action."""
    because: str
    """The reason for the deferral."""
    by: DeferredBy
    since: datetime
    faults: tuple[str, ...] = ()
    """For a change: the faults it may have caused. Other faults of the node are its own."""
    suspects: tuple[str, ...] = ()
    """For a change: what the nodes with the faults share, such as `driver=570.86`; empty if it is
    the check. It stays suspected while a deferred node shows the fault."""
    released: str = ""
    """Why an operator released it; empty while it is deferred."""

    @property
    def releasable(self) -> bool:
        """Whether an operator can release it: an action is decided and is not a dry run."""
        return self.by not in (DeferredBy.DRY_RUN, DeferredBy.REMEDIATOR)
