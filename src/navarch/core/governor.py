"""Limits on what automation may do to a fleet without an operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class Domain(StrEnum):
    """A property that nodes share and that can fail for all of them at once."""

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
    """The number of nodes of one domain that automation may act on within the window."""

    nodes_min: int = 1
    """The least number of nodes allowed, however small the domain."""
    share_max: float = 0.05
    """A share of the domain's nodes; the larger of the two limits counts."""

    def allows(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within the window."""
        return max(self.nodes_min, int(size * self.share_max))

    def allows_in_a_day(self, size: int) -> int:
        """Return how many of `size` nodes may be acted on within a day."""
        return max(NODES_IN_A_DAY_MIN, self.allows(size))


def default_budgets() -> dict[Domain, DomainBudget]:
    """Return budgets that a healthy fleet never reaches.

    The worst published failure rates are below seven a day in a thousand nodes. Domains that
    several pools share allow three nodes at once, so that small pools do not delay each other.
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
    """The limits of automation for one fleet."""

    budgets: Mapping[Domain, DomainBudget] = field(default_factory=default_budgets)
    window: timedelta = timedelta(hours=1)
    """The time over which actions are counted."""
    change_window: timedelta = timedelta(hours=24)
    """The time for which a change remains a suspect."""
    suspect_nodes: int = 5
    """The number of nodes with the same fault and the same change that make it a suspect, or ..."""
    suspect_share: float = 0.002
    """... this share of the nodes that had the change, whichever is more: in a fleet of 100,000
    nodes some always fail in the same way on the same day."""


DEFAULT_SETTINGS = GovernorSettings()


def default_settings() -> GovernorSettings:
    """Return the settings of a fleet without a configuration for them."""
    return DEFAULT_SETTINGS
