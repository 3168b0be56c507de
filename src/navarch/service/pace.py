"""The pace of reports: one agent cannot take all of the control plane's time."""

from collections import OrderedDict

import structlog

from navarch.core.errors import UnreachableError
from navarch.core.health import Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.limits import REPORTS_WAITING
from navarch.ports.clock import Clock

COST_S = 0.05
"""The part of a node's time that a report takes in which every check passes."""
COST_PER_FAULT_S = 0.01
"""The further part for each fault, which policies judge: a full report takes two seconds."""
BURST_S = 30.0
"""How far a node may be ahead: 600 reports without faults, as an agent delivers after ten hours
without a network, or fifteen full ones."""
NODES_MAX = 4096
"""Nodes whose pace is kept. The one that has not reported for the longest makes room."""

log = structlog.get_logger(__name__)


class _Node:
    def __init__(self) -> None:
        self.paid_until = 0.0
        self.waiting = 0


class ReportPace:
    """Delays the reports of a node that sends too many, and no others.

    A report is delayed and not refused: it may hold the proof of a fault.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: OrderedDict[NodeId, _Node] = OrderedDict()

    async def turn(self, name: NodeId, report: HealthReport | None) -> None:
        """Return once a report of a node may be judged.

        Raises UnreachableError if too many wait already: the agent sends it again later.
        """
        results = () if report is None else report.results
        faults = sum(result.health is not Health.HEALTHY for result in results)
        await self.spend(name, COST_S + faults * COST_PER_FAULT_S)

    async def spend(self, name: NodeId, cost_s: float) -> None:
        """Return once a node may take that much more of the time; raises UnreachableError too."""
        node = self._nodes.setdefault(name, _Node())
        self._nodes.move_to_end(name)
        if len(self._nodes) > NODES_MAX:
            self._nodes.popitem(last=False)
        now = self._clock.monotonic()
        node.paid_until = max(node.paid_until, now) + cost_s
        delay = node.paid_until - BURST_S - now
        if delay <= 0:
            return
        if node.waiting >= REPORTS_WAITING.most:
            node.paid_until -= cost_s
            raise UnreachableError(f"{name}: too many reports wait; send this one again later")
        if not node.waiting:
            log.warning("report.delayed", node=name, seconds=round(delay, 1))
        node.waiting += 1
        try:
            await self._clock.sleep(delay)
        finally:
            node.waiting -= 1
