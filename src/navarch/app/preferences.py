"""Parts that the file and extensions choose, and that a reload may change while they are used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from navarch.app.buying import custom_autoscalers, provision_schedulers
from navarch.app.extensions import Extensions
from navarch.app.remediators import load_remediators
from navarch.config import Config
from navarch.config.budget import to_budget
from navarch.core.budget import Budget
from navarch.core.ids import PoolName
from navarch.ports.autoscaler import Autoscaler
from navarch.ports.provision import ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.registry import check_part

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Preferences:
    """Who decides. The collections stay the same; whoever was given one sees it change."""

    buying: dict[PoolName, ProvisionScheduler]
    sizing: dict[PoolName, Autoscaler]
    budgets: list[Budget]
    remediators: dict[str, Remediator]

    def become(self, other: "Preferences") -> None:
        """Decide as `other` does. Nodes may still name a remediator that no pool names any more."""
        _become(self.buying, other.buying)
        _become(self.sizing, other.sizing)
        self.budgets[:] = other.budgets
        self.remediators |= other.remediators


def load_preferences(config: Config, extensions: Extensions) -> Preferences:
    """Return what the file and the extensions say, or raise what is wrong with it."""
    _check(extensions)
    named = provision_schedulers(config, extensions.provision_scheduler)
    strategies = (pool.remediation.strategy for pool in config.pools.values())
    return Preferences(
        buying={**named, **extensions.provision_schedulers},
        sizing={**custom_autoscalers(config), **extensions.autoscalers},
        budgets=[*(to_budget(each) for each in config.budgets), *extensions.budgets],
        remediators=dict(load_remediators(strategies)),
    )


def _check(extensions: Extensions) -> None:
    """Raise what is wrong with the parts that an embedder brings along."""
    usual = extensions.provision_scheduler
    check_part("provision_schedulers", type(usual).__name__, usual, method="score")
    for kind, parts, method in (
        ("provision_schedulers", extensions.provision_schedulers, "score"),
        ("autoscalers", extensions.autoscalers, "recommend"),
    ):
        for pool, part in parts.items():
            check_part(kind, f'{type(part).__name__} for pool "{pool}"', part, method=method)


def _become(old: dict[K, V], new: Mapping[K, V]) -> None:
    for gone in [key for key in old if key not in new]:
        del old[gone]
    old.update(new)
