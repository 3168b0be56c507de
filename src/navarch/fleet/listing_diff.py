"""Machines that have nothing new to teach: seen before, just so, with their node just so."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, compress, count, repeat
from operator import attrgetter, is_, is_not

import msgspec

from navarch.core.fleet import Fleet
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.instance import Instance
from navarch.core.node import Node
from navarch.core.stretches import Stretches
from navarch.fleet.instance_state import adds_nothing, is_same_to_listing


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a listing that is worth a look."""

    instances: Sequence[Instance]
    missing: Sequence[NodeId]
    """Nodes whose machines should have been listed."""


Pair = tuple[Instance, Instance]
"""One machine as two listings describe it."""

Part = tuple[Sequence[Instance], Sequence[Instance]]
"""Of two listings what the one has and what the other has in its place."""

FEW = 32
"""So many stretches of a listing may have changed before all that follows is looked at."""

STRETCH = 256
"""So many machines are compared at once."""

_name = attrgetter("id")


class ListingDiff:
    """Remembers what one provider's last listing showed and what came of it.

    A listing of thousands is nearly always the one before. What a machine and its node teach
    together depends on nothing else, so a pair that taught nothing is passed over until one
    of the two changes. A memory, not a truth: after a restart everything is looked at.
    """

    def __init__(self, provider: ProviderName, nodes: Iterable[Node]) -> None:
        self._provider = provider
        self._listed: Sequence[Instance] = ()
        self._by_id: dict[InstanceId, Instance] = {}
        self._places = _Places()
        self._node_of: dict[InstanceId, NodeId] = {}
        self._machine_of: dict[NodeId, InstanceId] = {}
        self._unfamiliar: dict[InstanceId, None] = {}
        self._looked_at: set[InstanceId] = set()
        """What of the unfamiliar was shown last, as it is since then: what changes while its
        lessons are written down has taught nothing yet."""
        self._absent: dict[NodeId, None] = {}
        for node in nodes:
            self.changed(node)

    def changed(self, node: Node, before: Node | None = None) -> bool:
        """Look at `node` and its machine again, unless both are to a listing what they were.

        Return whether they are something else.
        """
        if before is not None and is_same_to_listing(before, node):
            return False
        name, launch = node.id, node.launch
        self._absent.pop(name, None)
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
            self._absent[name] = None
        return True

    def _invalidate(self, machine: InstanceId) -> None:
        self._unfamiliar[machine] = None
        self._looked_at.discard(machine)

    def diff(self, listed: Sequence[Instance], fleet: Fleet) -> Delta:
        """Return what of a new listing is not familiar."""
        if listed != self._listed:
            self._take(listed, fleet)
        # In the order of the fleet, not of sets: what follows from it is written in this order.
        missing = sorted(name for name in self._absent if name in fleet.nodes)
        self._looked_at = set(self._unfamiliar)
        return Delta(instances=self._in_order(), missing=missing)

    def _in_order(self) -> list[Instance]:
        """Return what is unfamiliar in the order of the listing: of twins the first is kept."""
        if len(self._by_id) != len(self._listed):
            return [instance for instance in self._listed if instance.id in self._unfamiliar]
        return [self._by_id[name] for name in self._places.sort(self._unfamiliar, self._listed)]

    def mark_processed(
        self, changed: Iterable[NodeId], fleet: Fleet, *, unsettled: set[InstanceId]
    ) -> None:
        """Note that the last listing's lessons are written down, those of `changed` nodes.

        Machines that are `unsettled`, strangers and strays, are looked at every time.
        """
        done = self._looked_at - unsettled
        for name in changed:
            node = fleet.nodes.get(name)
            machine = _machine(node)
            if machine is None:
                continue
            listed = self._by_id.get(machine)
            if node is not None and node.gone and listed is not None and not listed.status.alive:
                # Of one that is gone, and listed as ended, there is nothing more to learn.
                done.add(machine)
            else:
                done.discard(machine)
        self._unfamiliar = {name: None for name in self._unfamiliar if name not in done}

    def _take(self, listed: Sequence[Instance], fleet: Fleet) -> None:
        """Take in a listing, but for what is described as before, which nearly everything is."""
        if len(self._by_id) == len(self._listed):
            anew, parts = _apart(self._listed, listed)
        else:
            # Some machine was listed twice: which of its descriptions counts is not for parts.
            anew, parts = [], [(self._listed, listed)]
        self._listed = listed
        for was, instance in anew:
            self._by_id[instance.id] = instance
            if not adds_nothing(was, instance):
                self._unfamiliar[instance.id] = None
        if parts:
            self._places.follow(parts)
            self._take_parts(parts, fleet)

    def _take_parts(self, parts: Sequence[Part], fleet: Fleet) -> None:
        old: dict[InstanceId, Instance] = {}
        for gone, _ in parts:
            for instance in gone:
                old[instance.id] = self._by_id.pop(instance.id, instance)
        for _, come in parts:
            for instance in come:
                was = old.pop(instance.id, None)
                if was is None or (was is not instance and not adds_nothing(was, instance)):
                    self._unfamiliar[instance.id] = None
                self._by_id[instance.id] = instance
        for vanished in old:
            if vanished not in self._by_id:
                self._unfamiliar.pop(vanished, None)
                self._look_for(vanished, fleet)
        for name in list(self._absent):
            if _machine(fleet.nodes.get(name)) in self._by_id:
                del self._absent[name]

    def _look_for(self, vanished: InstanceId, fleet: Fleet) -> None:
        name = self._node_of.pop(vanished, None)
        node = None if name is None else fleet.nodes.get(name)
        if node is None or node.gone or _machine(node) != vanished:
            self._machine_of.pop(name or NodeId(""), None)
        else:
            self._node_of[vanished] = node.id
            self._absent[node.id] = None


def _machine(node: Node | None) -> InstanceId | None:
    return None if node is None or node.launch is None else node.launch.instance


class _Places:
    """In which order machines were listed, at the cost of what has changed.

    Each has a number, and the numbers grow along the listing. They stay as they are while
    machines are taken out, described anew where they stand or appended, which is what most
    clouds do; after anything else they are given anew, once somebody asks.
    """

    def __init__(self) -> None:
        self._numbers: dict[InstanceId, int] | None = None
        self._next = 0

    def follow(self, parts: Sequence[Part]) -> None:
        """Take in that a listing has changed, in its last part at the end."""
        if self._numbers is None:
            return
        *within, (gone, come) = parts
        taken_out = list(gone)
        for was, now in within:
            if not now:
                taken_out += was
            elif [*map(_name, was)] != [*map(_name, now)]:
                self._numbers = None
                return
        for instance in taken_out:
            self._numbers.pop(instance.id, None)
        for instance in come:
            self._numbers[instance.id] = self._next
            self._next += 1

    def sort(self, names: Collection[InstanceId], listed: Sequence[Instance]) -> list[InstanceId]:
        """Return names in the order in which they are listed."""
        if len(names) < 2:
            return list(names)
        if self._numbers is None:
            self._numbers = {instance.id: place for place, instance in enumerate(listed)}
            self._next = len(listed)
        return sorted(names, key=self._numbers.__getitem__)


def _apart(before: Sequence[Instance], after: Sequence[Instance]) -> tuple[list[Pair], list[Part]]:
    """Return who is described anew where it stands, and where anybody came or went.

    The latter are parts of both, of which the last reaches to the end; it may be empty. Of listings
    that share their stretches only those are read that are not shared.
    """
    if not isinstance(before, Stretches) or not isinstance(after, Stretches):
        found = _anew(before, after)
        return ([], _apart_one_by_one(before, after)) if found is None else (found, [])
    olds, news = before.stretches, after.stretches
    if len(olds) != len(news):
        # What reaches beyond the shorter of both is put in, or taken out, at its end.
        last = max(min(len(olds), len(news)) - 1, 0)
        olds = (*olds[:last], tuple(chain.from_iterable(olds[last:])))
        news = (*news[:last], tuple(chain.from_iterable(news[last:])))
    anew: list[Pair] = []
    parts: list[Part] = []
    ends_with: object = None
    for was, now in compress(zip(olds, news, strict=True), map(is_not, olds, news)):
        found = _anew(was, now)
        if found is None:
            parts += _apart_one_by_one(was, now)
            ends_with = now
        else:
            anew += found
    if parts and ends_with is not news[-1]:
        parts.append(((), ()))
    return anew, parts


def _anew(before: Sequence[Instance], after: Sequence[Instance]) -> list[Pair] | None:
    """Return who is described anew where it stands; None where more than a few are, or others."""
    if len(before) != len(after):
        return None
    changed = list(compress(zip(before, after, strict=True), map(is_not, before, after)))
    if len(changed) > FEW:
        return None
    for was, now in changed:
        if was.id != now.id:
            return None
    return changed


def _apart_one_by_one(before: Sequence[Instance], after: Sequence[Instance]) -> list[Part]:
    """Return both without what is alike in both.

    Machines are taken out, described anew where they stand, put in or appended. Where that explains
    little, as when another order was chosen, the rest of both is the last part.
    """
    parts: list[Part] = []
    here = there = 0
    for _ in range(FEW):
        alike = _alike(before, here, after, there)
        here, there = here + alike, there + alike
        if here == len(before) or there == len(after):
            break
        taken_out = _found(after[there], before, here)
        put_in = 0 if taken_out else _found(before[here], after, there)
        if not taken_out and not put_in:
            taken_out = put_in = 1
        parts.append((before[here : here + taken_out], after[there : there + put_in]))
        here, there = here + taken_out, there + put_in
    return [*parts, (before[here:], after[there:])]


def _alike(before: Sequence[Instance], here: int, after: Sequence[Instance], there: int) -> int:
    """Return how many are alike from two places on, by whole stretches and then one by one."""
    alike = 0
    while True:
        was, now = before[here : here + STRETCH], after[there : there + STRETCH]
        if len(was) < STRETCH or was != now:
            break
        alike, here, there = alike + STRETCH, here + STRETCH, there + STRETCH
    # Most are the very same; to hold two descriptions against each other takes long.
    for place in compress(count(), map(is_not, was, now)):
        if was[place] != now[place]:
            return alike + place
    return alike + min(len(was), len(now))


def _found(instance: Instance, among: Sequence[Instance], place: int) -> int:
    """Return how far behind a place the very same description stands, if not far; else 0."""
    near = among[place + 1 : place + 1 + FEW]
    return next(compress(count(1), map(is_, near, repeat(instance))), 0)
