"""The nodes that hold a machine, whatever its label."""

from navarch.core.ids import InstanceId, NodeId
from navarch.core.node import Node
from navarch.ports.store import Committed, Store


class Claims:
    """An index of nodes by machine, advanced with every commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nodes: dict[InstanceId, dict[NodeId, None]] = {}
        for node in store.fleet().nodes.values():
            self._note(node)
        self.leave = store.subscribe(self._changed)

    def wanted_by(self, instance: InstanceId) -> list[Node]:
        """Return the nodes that have this machine and are not on their way out."""
        known = self._store.fleet().nodes
        return [known[name] for name in self._nodes.get(instance, ()) if known[name].counts]

    def _note(self, node: Node) -> None:
        if node.instance is not None:
            self._nodes.setdefault(node.instance, {})[node.id] = None

    def _changed(self, committed: Committed) -> None:
        for before, node in committed.moved:
            if before is not None and before.launch is node.launch:
                continue
            if before is None or before.instance != node.instance:
                self._drop(before)
                self._note(node)
        for node in committed.forgotten:
            self._drop(node)

    def _drop(self, node: Node | None) -> None:
        if node is not None and node.instance is not None:
            claimants = self._nodes.get(node.instance, {})
            claimants.pop(node.id, None)
            if not claimants:
                self._nodes.pop(node.instance, None)
