"""Adoption: running machines that a pool takes in, and gives up, without an end of any.

An adopted machine is a self-registered node that received a launch: the record with which Navarch
owns a machine. Its agent, its work and its history stay.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from navarch.core.event import BY_HAND, Event, about
from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import NodeId, Token
from navarch.core.instance import Instance
from navarch.core.launch import Launch, Offering
from navarch.core.node import Mark, Node, Phase
from navarch.core.ownership import CLUSTER, Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle

ADOPTABLE = "adopt"
"""The value of the label `navarch-cluster` with which an operator offers a machine. It is needed at
providers that list only machines with that label, and proves no owner."""


class Found(NamedTuple):
    """A running machine, and the self-registered node of its agent."""

    instance: Instance
    node: Node


def why_not_adopted(pool: Pool, found: Found, cluster: Cluster) -> str | None:
    """Return why `pool` must not take in a machine, with the remedy; None if it may.

    Whatever a pool would end at once is refused: an unhealthy machine would be replaced, one of
    another kind would have drifted.
    """
    instance, node = found
    if not node.self_registered:
        return f"node {node.id} has a machine already"
    known = {instance.private_address, instance.public_address} - {""}
    if node.id != NodeId(instance.id) and node.address and known and node.address not in known:
        # The health of one machine must never end another.
        return (
            f"node {node.id} runs at {node.address}, not at {' or '.join(sorted(known))}; if it is "
            f"the machine, start its agent with --node-id {instance.id}"
        )
    if not instance.status.alive:
        return f"its provider lists it as {instance.status}"
    if cluster.owner(instance.labels) is not None:
        return "this cluster has bought it"
    owner = instance.labels.get(CLUSTER)
    if owner not in (None, ADOPTABLE, cluster.id):
        return f"it carries the labels of Navarch cluster {owner}; release it there first"
    if node.health is not Health.HEALTHY:
        return (
            f"node {node.id} is {node.health}; adopt it once `navarch get {node.id}` shows why not"
        )
    if node.phase is not Phase.READY:
        return f"node {node.id} is {node.phase}; `navarch uncordon {node.id}` first"
    if offering_of(pool, instance) is None:
        place = instance.zone or instance.region
        kind = f"{instance.instance_type} at {instance.provider}" + (
            f" in {place}" if place else ""
        )
        return f"pool {pool.name} does not list {kind}; add it to the pool's offerings first"
    return None


def offering_of(pool: Pool, instance: Instance) -> Offering | None:
    """Return the offering of `pool` that `instance` could have been bought from.

    No listing shows how a machine is paid for, so the usual way is taken first.
    """
    for offering in sorted(pool.offerings, key=lambda x: (bool(x.reservation), x.spot)):
        if (
            offering.provider == instance.provider
            and offering.instance_type == instance.instance_type
            and offering.region in ("", instance.region)
            and offering.zone in ("", instance.zone)
        ):
            return offering
    return None


def size_with(pool: Pool, fleet: Fleet, machines: int) -> int:
    """Return the size of `pool` at which no node is surplus once it takes in some machines.

    It may exceed the maximum of the pool, which must then refuse them.
    """
    counting = sum(node.counts for node in fleet.in_pool(pool.name).values())
    return max(pool.size, counting + machines - pool.spares)


def adopted(pool: Pool, found: Found, token: Token, *, now: datetime) -> tuple[Node, Event]:
    """Return the node of a machine that belongs to `pool` from now on."""
    instance, node = found
    offering = offering_of(pool, instance)
    assert offering is not None, instance.id
    price = instance.price_per_hour
    launch = Launch(
        token=token,
        node=node.id,
        pool=pool.name,
        offering=evolve(offering, zone=instance.zone or offering.zone),
        asked_at=now,
        team=pool.team,
        instance=instance.id,
        public_address=instance.public_address,
        private_address=instance.private_address,
        price_per_hour=offering.price_per_hour if price is None else price,
        # What it cost before is not a cost of this pool.
        launched_at=now,
        registered_at=now,
        adopted=True,
    )
    mark = Mark(provider=instance.provider, instance=instance.id)
    after = evolve(node, pool=pool.name, launch=launch, offering=None, mark=mark)
    reason = f"{instance.id} at {instance.provider} belongs to pool {pool.name} from now on"
    return after, _by_hand(lifecycle.node_event(after, "node.adopted", reason, now=now))


def why_not_released(node: Node) -> str | None:
    """Return why the machine of `node` cannot be given up, with the remedy; None if it can."""
    if node.gone:
        return f"node {node.id} is gone"
    if node.launch is None:
        return f"node {node.id} registered by itself; there is nothing to release"
    if not node.launch.adopted:
        return f"node {node.id} was bought, not adopted; end it with `navarch terminate {node.id}`"
    if node.retiring is not None:
        return f"node {node.id} is being terminated: {node.retiring.reason}"
    if node.recovery is not None:
        return f"node {node.id} is under repair; wait until `navarch get {node.id}` shows its end"
    return None


def released(node: Node, reason: str, *, now: datetime) -> tuple[Node, Launch, Event]:
    """Return a node that owns no machine any more, its ended launch, and the event.

    The machine keeps running, and its agent keeps reporting, as that of a self-registered node.
    """
    launch = node.launch
    assert launch is not None, node.id
    assert why_not_released(node) is None, node.id
    after = evolve(node, pool=None, launch=None, offering=launch.offering, held=None)
    words = f"{launch.instance} does not belong to pool {launch.pool} any more, and keeps running"
    event = lifecycle.node_event(
        after, "node.released", f"{words}: {reason}" if reason else words, now=now
    )
    return after, evolve(launch, ended_at=now), _by_hand(event)


def _by_hand(event: Event) -> Event:
    return evolve(event, facts={**event.facts, "by": BY_HAND})


def pool_event(
    before: Pool, pool: Pool, nodes: Sequence[Node], verb: str, *, now: datetime
) -> Event:
    """Return the event that explains the size of a pool that took in or gave up machines."""
    names = ", ".join(node.id for node in nodes)
    return Event(
        at=now,
        about=about("pool", pool.name),
        kind="pool.scaled",
        reason=f"{before.size} to {pool.size} nodes: {verb} {names}",
        because=tuple(about("node", node.id) for node in nodes),
        facts={"size": str(pool.size), "by": BY_HAND},
    )
