"""Provision schedulers, called through the guard of extensions."""

import math

from navarch.control.runtime.extensions import Extension, ExtensionGuard, ExtensionKind, name_of
from navarch.core.event import about
from navarch.ports.provider import ProvisionOption, ProvisionScheduler


class GuardedProvisionScheduler:
    """Scores options, and raises ExtensionFailedError for one that cannot be scored.

    A failure concerns that option only: it comes last, and the others keep their order.
    """

    def __init__(self, guard: ExtensionGuard, scheduler: ProvisionScheduler) -> None:
        self._guard = guard
        self._scheduler = scheduler

    def score(self, option: ProvisionOption) -> float:
        """Return the score of `option`."""
        extension = Extension(
            kind=ExtensionKind.PROVISION_SCHEDULER,
            name=name_of(self._scheduler),
            subject=about("pool", option.pool),
            part=str(option.position),
        )
        return self._guard.call(extension, self._scheduler, lambda: self._checked_score(option))

    def _checked_score(self, option: ProvisionOption) -> float:
        score: object = self._scheduler.score(option)
        if not isinstance(score, int | float) or math.isnan(score):
            raise TypeError(f"{score!r} is no score")
        return score
