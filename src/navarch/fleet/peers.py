"""Peers: which nodes probe a silent one, and what their results prove about it.

A program that sends a greeting proves that the machine works. A connection that is only accepted
or refused proves nothing: the kernel of a machine that hangs does that too. That no node can
connect to it proves little: a firewall, a switch or a cable may be at fault. It counts as dead only
if nodes that share its rack and switch, and nodes elsewhere, cannot connect to it, connect to
others there with the same probe, and no other node of that place is silent or stopped with it and
came back; and only after it could have rebooted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from itertools import islice, product
from zlib import crc32

import msgspec

from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.core.witness import Reach, Testimony
from navarch.fleet.disruption.governor.attributes import Attribute, attributes_of, describe
from navarch.fleet.disruption.governor.outage import TOGETHER
from navarch.fleet.silence import is_known_to_work
from navarch.ports.witness import Observation

NAME = "peers"
"""The name of this witness in testimonies."""

NEAR, FAR = 3, 2
"""How many nodes of its place, and how many others, probe a silent node."""

NEAR_MIN, FAR_MIN = 2, 1
"""How many of each must agree that it is dead. The result of one node never decides."""

TARGETS_MAX = 16
"""How many silent nodes one node probes at a time."""

SEARCHED_MAX = 256
CONSIDERED_MAX = 64

SHARED = ("rack", "switch")
"""The attributes that a silent node and the nodes near it have in common, as far as it has them."""

DOUBTED_FOR = timedelta(hours=2)
"""How long the silence of a node that is gone is evidence against the network of its place."""

Place = tuple[Attribute, ...]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one node: to connect to a silent one, and to one of the same place and pool."""

    peer: NodeId
    target: NodeId
    address: str
    control: str = ""
    """The address of the other; empty if there is none, so that a failure proves nothing."""
    is_near: bool = False
    """Whether the peer shares the place of the target."""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one peer found."""

    probe: Probe
    target: Reach
    control: Reach = Reach.FAILED


def address_of(node: Node) -> str:
    """Return the address at which other nodes reach `node`; empty if none is known.

    What the provider reports takes precedence: an agent may report an address that is not its own.
    """
    launch = node.launch
    given = (launch.private_address, node.address, launch.public_address) if launch else ()
    return next((each for each in given or (node.address,) if _is_of_a_machine(each)), "")


@lru_cache(maxsize=65_536)
def _is_of_a_machine(address: str) -> bool:
    """Return whether an address may be probed: others may be the prober's own, or no machine's."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return not (
        found.is_loopback
        or found.is_link_local
        or found.is_multicast
        or found.is_unspecified
        or found == ip_address("255.255.255.255")
    )


def can_probe(node: Node) -> bool:
    """Return whether `node` may probe others, provided that its agent reports."""
    is_serving = node.phase in (Phase.READY, Phase.DRAINING) and node.health is Health.HEALTHY
    return is_serving and node.probes and node.place is not None


def place_of(attributes: Iterable[Attribute]) -> Place:
    """Return the smallest place that is known of a node: its rack and its switch."""
    return tuple([each for each in attributes if each[0] in SHARED])


class Peers:
    """The nodes that can probe others, by the network and by the place that they share."""

    def __init__(
        self,
        nodes: Sequence[Node],
        attributes: Mapping[NodeId, Sequence[Attribute]],
        addresses: Mapping[str, int],
    ) -> None:
        """`addresses` holds how many nodes of the fleet have each address."""
        self._addresses = addresses
        self._place: dict[NodeId, Place] = {}
        self._near: dict[Place, list[Node]] = {}
        self._network: dict[tuple[str, str], list[Node]] = {}
        for node in sorted(nodes, key=lambda each: each.id):
            place = self._place[node.id] = place_of(attributes.get(node.id, ()))
            if place:
                self._near.setdefault(place, []).append(node)
            self._network.setdefault(_network_of(node), []).append(node)

    def plan(
        self, silent: Iterable[Node], load: Mapping[NodeId, int], avoided: Set[NodeId]
    ) -> list[Probe]:
        """Return the probes of silent nodes.

        `load` holds how many targets each node has already; `avoided` are nodes that returned no
        result of late. The same input gives the same plan, and each silent node begins elsewhere
        in the list of nodes, so that the load is spread.
        """
        if not self._network:
            return []
        added = Counter[NodeId]()
        probes: list[Probe] = []

        def busy(node: Node) -> int:
            return load.get(node.id, 0) + added[node.id]

        for target in sorted(silent, key=lambda each: each.id):
            address = self.address(target)
            if not address or target.place is None:
                continue
            place = place_of(attributes_of(target))
            near = self._near.get(place, [])
            others = _from(self._network.get(_network_of(target), []), target)
            far = (x for x in others if not place or self._place[x.id] != place)
            for candidates, count, is_near in (
                (_from(near, target), NEAR, True),
                (far, FAR, False),
            ):
                for peer in _pick(candidates, count, busy, avoided):
                    added[peer.id] += 1
                    probes.append(
                        Probe(
                            peer=peer.id,
                            target=target.id,
                            address=address,
                            control=self._control(target, peer, near),
                            is_near=is_near,
                        )
                    )
        return probes

    def address(self, node: Node) -> str:
        """Return the address of `node`, unless another node has it, too."""
        address = address_of(node)
        return address if self._addresses.get(address, 0) <= 1 else ""

    def _control(self, target: Node, peer: Node, near: Sequence[Node]) -> str:
        """Return the address of a node that is set up as the target and shares its place."""
        for other in _from(near, target):
            if other.id not in (peer.id, target.id) and other.pool == target.pool:
                address = self.address(other)
                if address:
                    return address
        return ""


def _network_of(node: Node) -> tuple[str, str]:
    """Return the provider and region of `node`: elsewhere, its address may be another machine's."""
    assert node.place is not None, node.id
    return node.place.provider, node.place.region


def _from(nodes: Sequence[Node], target: Node) -> Iterator[Node]:
    """Yield other nodes, from a position that depends on the target."""
    first = crc32(target.id.encode()) % len(nodes) if nodes else 0
    for step in range(min(len(nodes), SEARCHED_MAX)):
        node = nodes[(first + step) % len(nodes)]
        if node.id != target.id:
            yield node


def _pick(
    candidates: Iterable[Node], count: int, busy: Callable[[Node], int], avoided: Set[NodeId]
) -> list[Node]:
    free = (node for node in candidates if busy(node) < TARGETS_MAX)
    considered = islice(free, CONSIDERED_MAX)
    return sorted(considered, key=lambda node: (node.id in avoided, busy(node)))[:count]


def unexplained_silences(
    stopped: Iterable[Node], showing: Mapping[NodeId, tuple[Node, Condition]], *, now: datetime
) -> Set[NodeId]:
    """Return those nodes of one place that fell silent for no known reason.

    `stopped` are all nodes there that do not report, or did not for a while, and `showing` are the
    silent nodes of the fleet. A node that reports again counts if a silent one stopped when it did.
    """
    silent = [(node, showing[node.id][1].since) for node in stopped if node.id in showing]
    found = {node.id for node, since in silent if _is_unexplained(node, since, now)}
    stopped_at = [since for node, since in silent if not node.gone]
    for node in stopped:
        pairs = product(stopped_at, node.past_silences)
        if any(abs(at - past.since) <= TOGETHER for at, past in pairs):
            found.add(node.id)
    return found


def _is_unexplained(node: Node, since: datetime, now: datetime) -> bool:
    """Return whether a silent node is evidence against the network of its place.

    That peers cannot connect to a node is no explanation: the network of its place may be at fault.
    A node that works, and is only cut off from the control plane, is no evidence against it.
    """
    if any(x.alive is False and x.witness != NAME for x in node.testimonies):
        return False
    if is_known_to_work(node):
        return False
    if any(x.health is Health.UNHEALTHY and x.check != HEARTBEAT for x in node.conditions):
        return False
    return not node.gone or now <= since + DOUBTED_FOR


def judge(
    target: Node,
    results: Sequence[ProbeResult],
    silences: Mapping[Attribute, Set[NodeId]],
    *,
    port: int,
) -> Observation:
    """Return what the results of one round show about a silent node."""
    attributes = attributes_of(target)
    if any(result.target is Reach.GREETED for result in results):
        return Observation(
            alive=True, reason=f"a program of it responds to other nodes (port {port})"
        )
    if any(result.target.responds for result in results):
        text = f"its kernel responds to other nodes, but no program does (port {port})"
        return Observation(alive=None, reason=text)
    found = [result for result in results if result.target is not Reach.FAILED]
    if not found:
        return Observation(alive=None, reason="no other node has returned the result of a probe")
    able = [result for result in found if result.control.responds]
    near = sum(result.probe.is_near for result in able)
    lost = f"other nodes cannot connect to it (port {port})"
    place = place_of(attributes)
    words = " and ".join(describe(each) for each in place)
    if not place:
        return Observation(alive=None, reason=f"{lost}, but its rack and its switch are not known")
    if any(silences.get(each, set()) - {target.id} for each in attributes):
        text = f"{lost}, but further nodes near it stopped reporting: the network may be at fault"
        return Observation(alive=None, reason=text)
    if near < NEAR_MIN or len(able) - near < FAR_MIN:
        text = f"{lost}, but too few of them can connect to others of {words}"
        return Observation(alive=None, reason=text)
    text = f"no node of {words} or elsewhere can connect to it (port {port}), but to others there"
    return Observation(alive=False, reason=text)


def with_patience(
    observed: Observation, before: Testimony | None, *, patience: timedelta, now: datetime
) -> Observation:
    """Return an observation that a machine is dead only after it has been so for `patience`.

    A machine that reboots answers no probe for minutes, and works. `before` is the testimony of
    the round before.
    """
    if observed.alive is not False:
        return observed
    is_same = before is not None and before.reason == observed.reason
    since = before.since if before is not None and is_same else now
    return replace(observed, alive=False if now >= since + patience else None, since=since)
