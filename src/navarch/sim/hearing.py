"""Heartbeats that are computed when somebody asks, instead of being sent one by one."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import numpy as np

from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.sim.loop import EPOCH
from navarch.sim.pulse import Pulse
from navarch.stores.columns import Columns


class ComputedHearing(Columns):
    """The product's columns, in which agents at rest are known to be beating.

    An agent rests while its beats would change nothing. It cannot fall silent then, so its
    time is infinite; once it is roused, the time is that of the last beat it was to make.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        timeout: timedelta,
        nodes: Iterable[NodeId],
        resting: dict[NodeId, Pulse],
        load: Callable[[NodeId], float] | None = None,
    ) -> None:
        super().__init__(clock, timeout=timeout, nodes=nodes)
        self._started_at = clock.now()
        self._resting = resting
        self._load = load
        self._heard_last: dict[NodeId, float] = {}
        self._new: dict[NodeId, datetime] = {}
        """Who has come in this moment, and when each would be overdue."""
        for node in resting:
            self._heard[self._row(node)] = np.inf

    def rest(self, node: NodeId, pulse: Pulse) -> None:
        """Take it that `node` beats, until it rises."""
        self._resting[node] = pulse
        self._new.pop(node, None)
        row = self._row(node)
        self._heard_last[node] = float(self._heard[row])
        self._heard[row] = np.inf

    def rise(self, node: NodeId, pulse: Pulse) -> None:
        """Note when `node`, whose beats count singly from now on, was last heard of."""
        del self._resting[node]
        heard = self._heard_last.pop(node, 0.0)
        if node in self._rows:
            # A beat that was lost and made again was heard later than its turn.
            self._heard[self._rows[node]] = max(heard, self._last_beat(pulse).timestamp())
            # While it was at rest it could not fall silent, so nobody looks for that yet.
            self._tell(self._overdue_at(self._heard[self._rows[node]]))

    def last_heard(self, node: NodeId) -> datetime | None:
        """Return when `node` was last heard of by this process."""
        pulse = self._resting.get(node)
        return super().last_heard(node) if pulse is None else self._last_beat(pulse)

    def has_spoken(self, node: NodeId) -> bool:
        """Return whether `node` was heard of; one at rest would have been by now."""
        return node in self._resting or super().has_spoken(node)

    def utilization(self, nodes: Sequence[NodeId]) -> list[float | None]:
        """Return how busy each node is; one at rest would have said so by now."""
        found = super().utilization(nodes)
        if self._load is not None:
            for place, node in enumerate(nodes):
                if node in self._resting:
                    found[place] = self._load(node)
        return found

    def _welcome(self, node: NodeId, overdue_at: datetime) -> None:
        """Tell of one that was not known, unless it goes to rest within the moment, as most do."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._tell_of_the_new)
        self._new[node] = overdue_at

    def _tell_of_the_new(self) -> None:
        if self._new:
            self._tell(min(self._new.values()))
            self._new.clear()

    def _last_beat(self, pulse: Pulse) -> datetime:
        now_s = (self._clock.now() - EPOCH).total_seconds()
        last = pulse.first_arrival_after(now_s) - 1
        heard = EPOCH + timedelta(seconds=pulse.arrives_at(last))
        return max(heard, self._started_at)
