"""The heartbeat reconciler: notices who has fallen silent, and who is back."""

from datetime import datetime, timedelta

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
    the first of them could be overdue.
    """

    name = "heartbeats"

    def __init__(self, clock: Clock, store: Store, liveness: Liveness) -> None:
        self._clock = clock
        self._store = store
        self._liveness = liveness
        self._marked: dict[NodeId, None] = {}
        for node in store.fleet().nodes.values():
            self._note(node)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Sweep once; return when the next node could be overdue."""
        now = self._clock.now()
        fleet = self._store.fleet()
        silent = self._liveness.silent()
        judged = [
            *judge_silence(fleet, silent, timeout=self._liveness.timeout, now=now),
            *judge_return(fleet, self._marked, silent),
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
        moments = [
            self._liveness.next_change(),
            next_verdict_at(fleet, silent, timeout=self._liveness.timeout),
            # Somebody who is held to be silent may speak at any time; nothing pokes us then.
            now if self._marked else None,
        ]
        wake_at = min((moment for moment in moments if moment is not None), default=None)
        return None if wake_at is None else _next_sweep(max(wake_at, now))

    def _note(self, node: Node) -> None:
        if heartbeat_condition(node) and not node.gone:
            self._marked[node.id] = None
        else:
            self._marked.pop(node.id, None)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            self._note(node)
        for name in committed.change.forget_nodes:
            self._marked.pop(name, None)


def _next_sweep(moment: datetime) -> datetime:
    """Return the first whole second after `moment`.

    So that when somebody is found silent depends on nobody else: not on who else was nearly so.
    """
    return moment.replace(microsecond=0) + SWEEP
