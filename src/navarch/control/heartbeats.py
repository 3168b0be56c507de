"""The heartbeat reconciler: notices who has fallen silent, and who is back."""

from collections.abc import Callable
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.fleet.silence import heartbeat_condition, judge_return, judge_silence, next_verdict_at
from navarch.fleet.verdicts import with_results
from navarch.ports.clock import Clock
from navarch.ports.liveness import Liveness
from navarch.ports.store import Committed, Store

SWEEP = timedelta(seconds=1)
"""Sweeps come on whole seconds; a node is found silent, or back, this much late at worst."""


class HeartbeatReconciler:
    """Turns silence into a condition of the node, and speech into its end.

    No timer runs per node. One sweep looks at all of them, and the loop then sleeps until
    the first of them could be overdue, or until somebody speaks who was not expected to.
    """

    name = "heartbeats"

    def __init__(self, clock: Clock, store: Store, liveness: Liveness) -> None:
        self._clock = clock
        self._store = store
        self._liveness = liveness
        self._marked: dict[NodeId, None] = {}
        self._silent = False
        """Whether somebody was overdue at the last sweep."""
        self._sweep_at: datetime | None = LONG_AGO
        """When to look next; None while nobody can be overdue."""
        self._expected: datetime | None = None
        """The first moment to look at that became known during a sweep."""
        self.on_sooner: Callable[[], None] = lambda: None
        for node in store.fleet().nodes.values():
            self._note(node)
        store.subscribe(self._changed)
        liveness.subscribe(self._hear)

    async def reconcile(self) -> datetime | None:
        """Sweep if it is time to; return when the next node could be overdue."""
        now = self._clock.now()
        if self._sweep_at is not None and now < self._sweep_at:
            return self._sweep_at
        fleet = self._store.fleet()
        self._expected = None
        # Asked in this order, nobody can fall silent between the two answers.
        next_change = self._liveness.next_change()
        silent = self._liveness.silent()
        spoken = [name for name in self._marked if self._liveness.has_spoken(name)]
        judged = [
            *judge_silence(fleet, silent, timeout=self._liveness.timeout, now=now),
            *judge_return(fleet, spoken, silent),
        ]
        if judged:
            nodes: list[Node] = []
            events: list[Event] = []
            for node, result in judged:
                after, news = with_results(node, [result], now=now)
                nodes.append(after)
                events += news
            fleet = await self._store.commit(
                Change(nodes=nodes, events=events), based_on=fleet.revision
            )
        self._silent = bool(silent)
        next_verdict = next_verdict_at(fleet, silent, timeout=self._liveness.timeout)
        moments = [each for each in (next_change, next_verdict, self._expected) if each is not None]
        self._sweep_at = _next_sweep(max(min(moments), now)) if moments else None
        return self._sweep_at

    def due_at(self) -> datetime | None:
        """Return from when on a sweep may find something.

        While nobody is silent no commit brings that closer: only time does, and who speaks that
        was not expected to. When that time has come, those for whom it was set have mostly spoken
        again, or are gone.
        """
        if self._sweep_at is None or self._silent or self._marked:
            return self._sweep_at
        if self._clock.now() >= self._sweep_at:
            overdue_from = self._liveness.overdue_from()
            self._sweep_at = None if overdue_from is None else _next_sweep(overdue_from)
        return self._sweep_at

    def _hear(self, moment: datetime) -> None:
        """Hear that somebody may be overdue by that moment, or is back."""
        self._expect(moment)
        self.on_sooner()

    def _expect(self, moment: datetime) -> None:
        self._expected = moment if self._expected is None else min(self._expected, moment)
        sweep_at = _next_sweep(max(moment, self._clock.now()))
        self._sweep_at = sweep_at if self._sweep_at is None else min(self._sweep_at, sweep_at)

    def _note(self, node: Node) -> None:
        if heartbeat_condition(node) and not node.gone:
            self._marked[node.id] = None
        else:
            self._marked.pop(node.id, None)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            if node.conditions or node.id in self._marked:
                self._note(node)
        for name in committed.change.forget_nodes:
            self._marked.pop(name, None)
        if self._silent or self._marked:
            # A silent node may have become one whose silence counts, or for more than before.
            self._hear(self._clock.now())


def _next_sweep(moment: datetime) -> datetime:
    """Return the first whole second after `moment`.

    So that when somebody is found silent depends on nobody else: not on who else was nearly so.
    """
    return moment.replace(microsecond=0) + SWEEP
