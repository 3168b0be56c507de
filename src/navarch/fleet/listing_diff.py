"""The part of a listing that differs from the listing before."""

from collections.abc import Iterable, Sequence

import msgspec

from navarch.core.fleet import Fleet
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.instance import Instance
from navarch.core.node import Node
from navarch.fleet.instance_state import adds_nothing, is_same_to_listing


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a listing that must be compared with the fleet."""

    instances: Sequence[Instance]
    missing: Sequence[NodeId]
    """Nodes with a machine that should have been listed."""


class ListingDiff:
    """The last listing of one provider, and the machines in it that are not processed yet.

    The findings about a machine depend on the machine and its node alone, so a processed pair is
    skipped until one of the two changes. It is a cache: after a restart everything is compared.
    """

    def __init__(self, provider: ProviderName, nodes: Iterable[Node]) -> None:
        self._provider = provider
        self._listed: Sequence[Instance] = ()
        self._by_id: dict[InstanceId, Instance] = {}
        self._node_of: dict[InstanceId, NodeId] = {}
        self._machine_of: dict[NodeId, InstanceId] = {}
        self._unprocessed: set[InstanceId] = set()
        self._returned: set[InstanceId] = set()
        """The unprocessed machines of the last delta that have not changed since. A machine that
        changes while the findings are committed remains unprocessed."""
        self._absent: set[NodeId] = set()
        for node in nodes:
            self.changed(node)

    def changed(self, node: Node, before: Node | None = None) -> bool:
        """Invalidate `node` and its machine; return False if a listing sees no difference."""
        if before is not None and is_same_to_listing(before, node):
            return False
        name, launch = node.id, node.launch
        self._absent.discard(name)
        former = self._machine_of.pop(name, None)
        if former is not None and former in self._by_id:
            self._invalidate(former)
        machine = None if launch is None else launch.instance
        if launch is None or machine is None or launch.offering.provider != self._provider:
            return True
        if machine in self._by_id:
            self._node_of[machine] = name
            self._machine_of[name] = machine
            self._invalidate(machine)
        elif node.gone:
            self._node_of.pop(machine, None)
        else:
            self._node_of[machine] = name
            self._machine_of[name] = machine
            self._absent.add(name)
        return True

    def _invalidate(self, machine: InstanceId) -> None:
        self._unprocessed.add(machine)
        self._returned.discard(machine)

    def diff(self, listed: Sequence[Instance], fleet: Fleet) -> Delta:
        """Return the unprocessed part of a new listing, in the order of the listing."""
        if listed != self._listed:
            self._replace_listing(listed, fleet)
        self._returned = set(self._unprocessed)
        # Sorted, because the order of the changes follows from it.
        missing = sorted(name for name in self._absent if name in fleet.nodes)
        unprocessed = self._unprocessed
        instances = [each for each in listed if each.id in unprocessed] if unprocessed else []
        return Delta(instances=instances, missing=missing)

    def mark_processed(
        self, changed: Iterable[NodeId], fleet: Fleet, *, unsettled: set[InstanceId]
    ) -> None:
        """Record that the findings of the last delta, which changed some nodes, are committed.

        Machines that are `unsettled`, foreign ones and orphans, are compared every time.
        """
        done = self._returned - unsettled
        for name in changed:
            node = fleet.nodes.get(name)
            machine = _machine(node)
            if machine is None:
                continue
            listed = self._by_id.get(machine)
            if node is not None and node.gone and listed is not None and not listed.status.alive:
                # A machine that is listed as ended has no further effect on a node that is gone.
                done.add(machine)
            else:
                done.discard(machine)
        self._unprocessed -= done

    def _replace_listing(self, listed: Sequence[Instance], fleet: Fleet) -> None:
        """Compare a new listing with the last one, machine by machine."""
        before, self._listed = self._by_id, listed
        self._by_id = {instance.id: instance for instance in listed}
        changed = [each for name, each in self._by_id.items() if before.get(name) is not each]
        kept = len(self._by_id) - len(changed)
        for instance in changed:
            was = before.get(instance.id)
            kept += was is not None
            if was is None or not adds_nothing(was, instance):
                self._unprocessed.add(instance.id)
        if len(self._by_id) != len(listed):
            self._unprocessed |= _listed_twice(listed)
        if kept != len(before):
            for vanished in before.keys() - self._by_id.keys():
                self._unprocessed.discard(vanished)
                self._note_vanished(vanished, fleet)
        for absent in list(self._absent):
            if _machine(fleet.nodes.get(absent)) in self._by_id:
                self._absent.discard(absent)

    def _note_vanished(self, vanished: InstanceId, fleet: Fleet) -> None:
        name = self._node_of.pop(vanished, None)
        node = None if name is None else fleet.nodes.get(name)
        if node is None or node.gone or _machine(node) != vanished:
            self._machine_of.pop(name or NodeId(""), None)
        else:
            self._node_of[vanished] = node.id
            self._absent.add(node.id)


def _listed_twice(listed: Sequence[Instance]) -> set[InstanceId]:
    """Return the machines with two descriptions, which may differ, in one listing."""
    seen: set[InstanceId] = set()
    twice: set[InstanceId] = set()
    for instance in listed:
        (twice if instance.id in seen else seen).add(instance.id)
    return twice


def _machine(node: Node | None) -> InstanceId | None:
    return None if node is None or node.launch is None else node.launch.instance
