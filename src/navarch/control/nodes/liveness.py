"""Liveness: finds nodes that stopped sending heartbeats, and nodes that are back."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from navarch.control.runtime.controller import Controller
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.core.node import Node
from navarch.fleet.silence import heartbeat_condition, judge_return, judge_silence, next_verdict_at
from navarch.fleet.verdicts import with_results
from navarch.ports.agents import Liveness
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

SWEEP = timedelta(seconds=1)
"""Sweeps run on whole seconds; a node is found silent, or back, this much late at worst."""

ALL_NODES = "all nodes"


class LivenessController(Controller):
    """Gives silent nodes a heartbeat condition, and removes it when they are back.

    There is no timer per node. One sweep looks at all of them; the next one is due when the first
    node could be overdue, or when a silent node reports again.
    """

    name = "heartbeats"

    def __init__(self, clock: Clock, store: Store, liveness: Liveness) -> None:
        super().__init__(clock, store, [ALL_NODES])
        self._liveness = liveness
        self._silent = False
        """Whether a node was overdue at the last sweep."""
        nodes = store.fleet().nodes.values()
        self._marked = {node.id: None for node in nodes if _is_marked(node)}
        """The nodes with a heartbeat condition."""
        self._expected: datetime | None = None
        """The first time that became relevant during a sweep."""
        liveness.subscribe(self._expect)

    def on_commit(self, committed: Committed) -> None:
        """Queue a sweep if silent nodes may be judged differently after a commit."""
        for node in committed.change.nodes:
            if _is_marked(node):
                self._marked[node.id] = None
            else:
                self._marked.pop(node.id, None)
        for name in committed.change.forget_nodes:
            self._marked.pop(name, None)
        if self._silent or self._marked:
            self._expect(self._clock.now())

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Sweep, and queue the next sweep."""
        now = self._clock.now()
        if not self._silent and not self._marked:
            # When the time has come, the nodes that it was set for have mostly sent another
            # heartbeat.
            overdue_from = self._liveness.overdue_from()
            if overdue_from is None:
                return
            if _next_sweep(overdue_from) > now:
                self.queue.add_by(ALL_NODES, _next_sweep(overdue_from))
                return
        fleet = self._store.fleet()
        self._expected = None
        # In this order, no node can become silent between the two answers.
        next_change = self._liveness.next_change()
        silent = self._liveness.silent()
        back = [name for name in self._marked if self._liveness.has_reported(name)]
        judged = [
            *judge_silence(fleet, silent, timeout=self._liveness.timeout, now=now),
            *judge_return(fleet, back, silent),
        ]
        if judged:
            nodes: list[Node] = []
            events: list[Event] = []
            for node, result in judged:
                after, news = with_results(node, [result], now=now)
                nodes.append(after)
                events += news
            change = Change(nodes=nodes, events=events)
            fleet = await self._store.commit(change, based_on=fleet.revision)
        self._silent = bool(silent)
        next_verdict = next_verdict_at(fleet, silent, timeout=self._liveness.timeout)
        moments = [each for each in (next_change, next_verdict, self._expected) if each is not None]
        due = _next_sweep(max(min(moments), now)) if moments else None
        self.queue.reschedule(ALL_NODES, due)

    def _expect(self, moment: datetime) -> None:
        """Queue a sweep for `moment`, when a node may be overdue or back."""
        self._expected = moment if self._expected is None else min(self._expected, moment)
        self.queue.add_by(ALL_NODES, _next_sweep(max(moment, self._clock.now())))


def _is_marked(node: Node) -> bool:
    return heartbeat_condition(node) is not None and not node.gone


def _next_sweep(moment: datetime) -> datetime:
    """Return the first whole second after `moment`.

    The time at which a node is found silent then does not depend on the other nodes.
    """
    return moment.replace(microsecond=0) + SWEEP
