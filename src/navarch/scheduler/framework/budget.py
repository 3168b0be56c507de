"""How long an action may look for places and victims, and what it left undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from navarch.scheduler.config import Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """An action stopped before it had looked at every job, or everywhere for one."""

    action: str
    job: str
    """The job it was working on; jobs after this one were not considered."""
    simulations: int
    reason: str


class Budget:
    """What one action may still spend.

    The number of simulations is always counted, so the same snapshot gives up at the same point.
    Time is only measured if the session has a clock.
    """

    def __init__(self, parameters: Parameters, clock: Callable[[], float] | None) -> None:
        self._simulations_max = parameters.simulations_per_action
        self._seconds_max = parameters.seconds_per_action
        self._clock = clock
        self._began = 0.0
        self.simulations = 0

    def begin(self) -> None:
        """Start afresh: another action begins."""
        self.simulations = 0
        self._began = self._clock() if self._clock is not None else 0.0

    def spend(self) -> bool:
        """Count a simulation; return whether it is allowed."""
        if self.exhausted() is not None:
            return False
        self.simulations += 1
        return True

    def exhausted(self) -> str | None:
        """Return which bound is reached, if one is."""
        most = self._simulations_max
        if most is not None and self.simulations >= most:
            return f"{most} simulations"
        return None if self._clock is None else self.late()

    @property
    def timed(self) -> bool:
        """Whether time is measured at all."""
        return self._clock is not None and self._seconds_max is not None

    def late(self) -> str | None:
        """Return how long the action was given, if that is over."""
        seconds = self._seconds_max
        if self._clock is None or seconds is None:
            return None
        return f"{seconds:g} seconds" if self._clock() - self._began >= seconds else None
