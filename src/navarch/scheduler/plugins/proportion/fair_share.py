"""Division of the cluster among queues: quotas first, then the surplus by weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from navarch.scheduler.model.quantity import RESOURCE_UNITS, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.model.queues import Queue
    from navarch.scheduler.plugins.proportion.shares import QueueShare, Shares

NEGLIGIBLE = 1e-6
"""Smaller amounts of milli-cores, bytes or hundredths of GPUs are rounding errors."""


def set_fair_shares(shares: Shares, roots: list[Queue], k_value: float) -> None:
    """Set every queue's fair share, level by level: children divide the share of their parent."""
    _divide_level(shares, roots, shares.total, k_value)


def _divide_level(shares: Shares, queues: list[Queue], total: Amounts, k_value: float) -> None:
    siblings = [shares[queue.name] for queue in queues]
    columns = [
        Division(siblings, resource, total[resource], k_value).divide() for resource in range(3)
    ]
    for share in siblings:
        share.fair_share = Amounts(*(column[share.name] for column in columns))
    for queue in queues:
        if queue.children:
            _divide_level(shares, queue.children, shares[queue.name].fair_share, k_value)


class Division:
    """One resource divided among sibling queues."""

    def __init__(
        self, siblings: Sequence[QueueShare], resource: int, total: float, k_value: float
    ) -> None:
        self._siblings = siblings
        self._resource = resource
        self._total = total
        self._k_value = k_value
        self._unit = RESOURCE_UNITS[resource]
        self._fair: dict[str, float] = {}
        self._left = total
        self._remainders: dict[str, float] = {}

    def divide(self) -> dict[str, float]:
        """Return each queue's fair share."""
        # Every queue has its quota, even if the quotas exceed the total.
        for share in self._siblings:
            deserved = share.deserved[self._resource]
            promised = self._total if deserved == UNLIMITED else deserved
            self._fair[share.name] = min(promised, share.requestable(self._resource))
            self._left -= self._fair[share.name]
        by_priority = sorted({share.queue.priority for share in self._siblings}, reverse=True)
        levels = [
            [share for share in self._siblings if share.queue.priority == priority]
            for priority in by_priority
        ]
        for level in levels:
            while self._left > NEGLIGIBLE and self._give_round(level):
                pass
        for level in levels:
            self._give_remainders(level)
        return self._fair

    def _give_round(self, level: list[QueueShare]) -> bool:
        """Give every queue its part of the rest; return whether some of it was not needed."""
        unsatisfied = [share for share in level if self._missing(share) > NEGLIGIBLE]
        weights = self._weights(unsatisfied)
        weight_sum = sum(weights.values())
        if weight_sum <= 0:
            return False
        amount = self._left
        unused = False
        for share in unsatisfied:
            if share.queue.weight[self._resource] <= 0:
                continue
            part = amount * weights[share.name] / weight_sum
            missing = self._missing(share)
            if missing <= part + NEGLIGIBLE:
                given = missing
                self._remainders.pop(share.name, None)
                unused = unused or missing < part - NEGLIGIBLE
            else:
                given = math.floor(part / self._unit + NEGLIGIBLE) * self._unit
                self._remainders[share.name] = part - given
            self._fair[share.name] += given
            self._left -= given
        return unused and self._left > NEGLIGIBLE

    def _weights(self, unsatisfied: list[QueueShare]) -> dict[str, float]:
        """Return each queue's share of the surplus: its weight, corrected by its recent usage."""
        weight_sum = sum(share.queue.weight[self._resource] for share in unsatisfied)
        if weight_sum <= 0:
            return {}
        weights = {}
        for share in unsatisfied:
            normal = share.queue.weight[self._resource] / weight_sum
            owed = self._k_value * (normal - share.usage[self._resource])
            weights[share.name] = max(0.0, normal + owed)
        return weights

    def _give_remainders(self, level: list[QueueShare]) -> None:
        """Give single units to the queues with the largest remainders."""
        remembered = [share for share in level if share.name in self._remainders]
        remembered.sort(key=lambda s: (-self._remainders[s.name], s.queue.created_at, s.name))
        for share in remembered:
            if self._left <= NEGLIGIBLE:
                return
            given = min(float(self._unit), self._left)
            self._fair[share.name] += given
            self._left -= given

    def _missing(self, share: QueueShare) -> float:
        return share.requestable(self._resource) - self._fair[share.name]
