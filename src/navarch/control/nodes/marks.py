"""Marks: label adopted machines at their providers, and remove the labels of released ones."""

import contextlib
from datetime import datetime
from functools import partial

from navarch.control.nodes.controller import NodeController
from navarch.control.providers.guard import GuardedProvider, Providers
from navarch.control.runtime.controller import update_with_retry
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import InstanceNotFoundError
from navarch.core.fleet import Change
from navarch.core.node import Mark, Node, Phase
from navarch.core.ownership import CLUSTER
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.ports.clock import Clock
from navarch.ports.store import Store


class MarkController(NodeController):
    """Keeps the label of this cluster on adopted machines, and off released ones.

    The adoption has stored what is to be labelled, and what a release leaves to be removed.
    Machines at a provider without labels are not marked.
    """

    name = "marks"
    phases = frozenset({Phase.READY, Phase.DRAINING})

    def __init__(
        self, clock: Clock, store: Store, providers: Providers, operations: OperationRunner
    ) -> None:
        self._providers = providers
        super().__init__(clock, store, operations)

    def concerns(self, node: Node) -> bool:
        """Return whether the label of a machine is to be put or removed."""
        mark = node.mark
        if mark is None or (mark.done and _is_owned(node, mark)):
            return False
        provider = self._providers.find(mark.provider)
        return provider is not None and provider.can_label

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Put or remove the label, unless a call about it is under way."""
        del now
        key = f"mark/{node.id}"
        mark = node.mark
        assert mark is not None, node.id
        if self._operations.busy(key):
            return None
        work = self._put if _is_owned(node, mark) else self._remove
        return self.start(node.id, key, partial(work, self._providers.get(mark.provider), node))

    async def _put(self, provider: GuardedProvider, node: Node) -> None:
        assert node.mark is not None, node.id
        # A listing shows that a machine is gone; there is nothing to label then.
        with contextlib.suppress(InstanceNotFoundError):
            await provider.put_label(node.mark.instance, CLUSTER, self._store.cluster.id)
        await self._record(node, evolve(node.mark, done=True), "node.marked", "is labelled")

    async def _remove(self, provider: GuardedProvider, node: Node) -> None:
        assert node.mark is not None, node.id
        with contextlib.suppress(InstanceNotFoundError):
            await provider.remove_label(node.mark.instance, CLUSTER, self._store.cluster.id)
        await self._record(node, None, "node.unmarked", "is not labelled any more")

    async def _record(self, node: Node, mark: Mark | None, kind: str, verb: str) -> None:
        """Commit the result, unless the node was adopted or released meanwhile."""
        before = node.mark
        assert before is not None, node.id

        def proposal(newest: Node) -> Change | None:
            owned = _is_owned(newest, before)
            if newest.mark != before or newest.gone or owned != _is_owned(node, before):
                return None
            after = evolve(newest, mark=mark)
            reason = f"{before.instance} {verb} as a machine of this cluster"
            event = lifecycle.node_event(after, kind, reason, now=self._clock.now())
            return Change(nodes=[after], events=[event])

        await update_with_retry(self._store, node.id, proposal)


def _is_owned(node: Node, mark: Mark) -> bool:
    """Return whether the marked machine is still that of `node`."""
    return node.launch is not None and node.launch.instance == mark.instance
