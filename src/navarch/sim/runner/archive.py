"""Records that the control plane drops during a long run and the figures still need."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from navarch.core.event import Recorded
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.ports.store import Committed


@dataclass(slots=True)
class Archive:
    """Keeps nodes that are long gone, and the part of the journal that was dropped."""

    nodes: dict[NodeId, Node] = field(default_factory=dict)
    journal: list[Recorded] = field(default_factory=list)

    def watch(self, done: Committed) -> None:
        """Keep the nodes that are forgotten with a commit, as they were last."""
        for node in done.forgotten:
            self.nodes[node.id] = node

    def keep(self, dropped: Sequence[Recorded]) -> None:
        """Keep what the journal drops."""
        self.journal += dropped

    def let_go(self) -> None:
        """Drop everything, once it has been read."""
        self.nodes.clear()
        self.journal.clear()
