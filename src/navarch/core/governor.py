"""How much may be done to a fleet by machines alone, before people are asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class Domain(StrEnum):
    """What nodes can have in common that can fail, or be failed, together."""

    POOL = "pool"
    ZONE = "zone"
    RACK = "rack"
    NVLINK = "nvlink"
    DRIVER = "driver"
    IMAGE = "image"


DAY = timedelta(days=1)

NODES_IN_A_DAY_MIN = 3
"""A small pool may lose a few nodes in a day without an operator, one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBudget:
    """How many nodes of one domain may be acted on within the window."""

    nodes_min: int = 1
    """So many always, however small the domain."""
    share_max: float = 0.05
    """Of the domain's nodes; the larger of the two counts."""

    def allows(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within the window."""
        return max(self.nodes_min, int(size * self.share_max))

    def allows_in_a_day(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within a day."""
        return max(NODES_IN_A_DAY_MIN, self.allows(size))


def default_budgets() -> dict[Domain, DomainBudget]:
    """Return budgets that a healthy fleet never notices.

    The worst published failure rates are below seven a day in a thousand nodes. Domains that
    several pools share let three go at once, so that small pools do not wait for one another.
    """
    return {
        Domain.POOL: DomainBudget(nodes_min=1, share_max=0.05),
        Domain.ZONE: DomainBudget(nodes_min=3, share_max=0.05),
        Domain.RACK: DomainBudget(nodes_min=1, share_max=0.25),
        Domain.NVLINK: DomainBudget(nodes_min=1, share_max=0.25),
        Domain.DRIVER: DomainBudget(nodes_min=3, share_max=0.05),
        Domain.IMAGE: DomainBudget(nodes_min=3, share_max=0.05),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorSettings:
    """The blast radius of automation."""

    budgets: Mapping[Domain, DomainBudget] = field(default_factory=default_budgets)
    window: timedelta = timedelta(hours=1)
    """Over which actions are counted."""
    change_window: timedelta = timedelta(hours=24)
    """How long a change stays under suspicion."""
    suspect_nodes: int = 5
    """So many nodes with the same fault and the same change make the change a suspect..."""
    suspect_share: float = 0.002
    """...or this share of those that had the change, whichever is more: of 100,000 nodes some
    always fail in the same way on the same day."""


DEFAULT_SETTINGS = GovernorSettings()


def default_settings() -> GovernorSettings:
    """Return the settings of a fleet that was given none."""
    return DEFAULT_SETTINGS
