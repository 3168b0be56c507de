"""The part of a listing that must be compared with the fleet."""

from collections.abc import Iterable, Sequence

import msgspec

from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.instance import Instance
from navarch.core.node import Node


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a listing that must be compared with the fleet."""

    instances: Sequence[Instance]
    missing: Sequence[NodeId]
    """Nodes with a machine that should have been listed."""


class ListingDiff:
    """The machines of one provider that were compared with the fleet already.

    The findings about a machine depend on the machine and its node alone, so a processed pair is
    skipped until one of the two changes. It is a cache: after a restart everything is compared.
    """

    def __init__(self, provider: ProviderName, nodes: Iterable[Node]) -> None:
        self._provider = provider
        self.node_of: dict[InstanceId, NodeId] = {}
        """The machines that should be listed, with their nodes."""
        self._listed: Sequence[Instance] = ()
        self._by_name: dict[InstanceId, Instance] = {}
        self._unprocessed: set[InstanceId] = set()
        self._returned: set[InstanceId] = set()
        """The machines of the last delta with nodes that have not changed since."""
        for node in nodes:
            self.changed(None, node)

    def changed(self, before: Node | None, node: Node) -> None:
        """Have the machine of a changed node compared again."""
        for state in (before, node):
            launch = None if state is None else state.launch
            if launch is None or launch.instance is None:
                continue
            if launch.offering.provider == self._provider:
                machine = launch.instance
                self._unprocessed.add(machine)
                self._returned.discard(machine)
                self.node_of.pop(machine, None)
                if state is node and not node.gone:
                    self.node_of[machine] = node.id

    def diff(self, listed: Sequence[Instance]) -> Delta:
        """Return the part of a new listing that is not processed, in the order of the listing."""
        if listed != self._listed:
            before, self._listed = self._by_name, listed
            self._by_name = {each.id: each for each in listed}
            self._unprocessed &= self._by_name.keys()
            # A provider may return the same objects, which need no comparison field by field.
            new = [each for each in listed if before.get(each.id) is not each]
            self._unprocessed.update(each.id for each in new if before.get(each.id) != each)
        self._returned = set(self._unprocessed)
        instances = [x for x in listed if x.id in self._returned] if self._returned else []
        missing = self.node_of.keys() - self._by_name.keys()
        # Sorted, because the order of the changes follows from it.
        return Delta(
            instances=instances, missing=sorted(self.node_of[machine] for machine in missing)
        )

    def mark_processed(self, *, unsettled: set[InstanceId]) -> None:
        """Record that the findings of the last delta are committed.

        Machines that are `unsettled`, foreign ones and orphans, are compared every time.
        """
        self._unprocessed -= self._returned - unsettled
