"""The fleet as operators see it: pure functions from records to views."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from decimal import Decimal

from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.limits import PAUSED
from navarch.core.node import Node, Phase, instance_state, node_status
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.fleet.sizing import why_paused
from navarch.health.conditions import explain
from navarch.ports.api import InstanceView, NodeView, PoolSpec, PoolView


def node_view(
    node: Node,
    pool: Pool | None,
    last_heartbeat: datetime | None,
    recovery: Recovery | None = None,
) -> NodeView:
    """Return the view of `node` for operators."""
    place = node.place
    launch = node.launch
    return NodeView(
        id=node.id,
        pool=node.pool,
        status=node_status(node),
        phase=node.phase,
        health=node.health,
        cordoned=node.cordoned,
        retiring=node.retiring.reason if node.retiring else None,
        conditions=node.conditions,
        provider=place.provider if place else "",
        region=place.region if place else "",
        zone=place.zone if place else "",
        instance_type=place.instance_type if place else "",
        instance=node.instance,
        public_address=launch.public_address if launch else "",
        private_address=launch.private_address if launch else "",
        gpus=gpus_of(node),
        price_per_hour=launch.price_per_hour if launch else Decimal(0),
        created_at=node.created_at,
        since=node.since,
        registered_at=node.registered_at,
        last_heartbeat=last_heartbeat,
        replaces=node.replaces,
        labels=node_labels(node, pool),
        topology=node.topology,
        gang=node.gang.id if node.gang else "",
        waiting=node.waiting,
        capacity_type=place.capacity_type if place else "",
        held=None if node.gone else node.held,
        testimonies=() if node.gone else node.testimonies,
        recovering=None
        if recovery is None
        else f"{recovery.step.replace('_', ' ')}, {recovery.state}: {recovery.cause}",
        boot=launch.progress if launch and node.phase is Phase.BOOTING else None,
    )


def instance_view(node: Node, pool: Pool | None) -> InstanceView:
    """Return the view of the machine of `node`."""
    place = node.place
    launch = node.launch
    return InstanceView(
        id=node.instance or (launch.token if launch else node.id),
        provider=place.provider if place else "",
        region=place.region if place else "",
        zone=place.zone if place else "",
        instance_type=place.instance_type if place else "",
        state=instance_state(node),
        pool=node.pool,
        node=node.id,
        created_at=node.created_at,
        ready_at=node.registered_at,
        terminated_at=node.since if node.gone else None,
        message=_message(node),
        labels=node_labels(node, pool),
    )


def pool_view(
    pool: Pool, nodes: Iterable[Node], obstacle: str | None = None, hosts: Sequence[Node] = ()
) -> PoolView:
    """Return the view of `pool` for operators.

    `obstacle` is why it cannot buy, `hosts` are the self-registered nodes that serve it.
    """
    present = [*(node for node in nodes if not node.gone), *hosts]
    starting = [n for n in present if n.counts and n.phase in (Phase.REQUESTED, Phase.BOOTING)]
    leaving = [node for node in present if not node.counts]
    return PoolView(
        spec=pool_spec(pool),
        size=pool.size,
        serving=sum(node.serving for node in present),
        starting=len(starting),
        leaving=len(leaving),
        unhealthy=sum(node.counts and node.health is Health.UNHEALTHY for node in present),
        cordoned=sum(node.counts and node.cordoned is not None for node in present),
        price_per_hour=sum(
            (node.launch.price_per_hour for node in present if node.launch and node.instance),
            Decimal(0),
        ),
        note=_note(pool, present, obstacle),
        degraded=sum(node.counts and node.health is Health.DEGRADED for node in present),
        hosts=len(hosts),
        paused=_paused(pool).removeprefix(PAUSED),
    )


def standing(pool: PoolView) -> str:
    """Return the size of a pool as text, with the reason if it has not reached its target."""
    words = f"at {pool.serving} of {pool.size} nodes"
    return f"{words}: {pool.note}" if pool.note else words


def pool_spec(pool: Pool) -> PoolSpec:
    """Return the specification of `pool`."""
    return PoolSpec(**{field.name: getattr(pool, field.name) for field in fields(PoolSpec)})


def count_by_status(fleet: Fleet) -> dict[str, int]:
    """Return the number of nodes by status, or by phase for those that have not registered."""
    present = (node for node in fleet.nodes.values() if not node.gone)
    counts = Counter(str(node_status(node) or node.phase) for node in present)
    return dict(sorted(counts.items()))


def gpus_of(node: Node) -> int:
    """Return the number of GPUs of `node`, reported or expected."""
    if node.gpus is not None:
        return node.gpus
    return node.place.gpus if node.place else 0


def node_labels(node: Node, pool: Pool | None) -> dict[str, str]:
    """Return the labels of `node`, from its pool, its agent and its provider."""
    labels = {**(pool.labels if pool else {}), **node.labels}
    # The provider is the authority on the place of a machine.
    labels |= dict(node.topology.labels) if node.topology else {}
    return labels | {"pool": pool.name} if pool else labels


def _message(node: Node) -> str:
    if node.retiring is not None:
        return node.retiring.reason
    return {
        Phase.REQUESTED: "waiting for the provider",
        Phase.BOOTING: "waiting for node to register",
        Phase.READY: "node registered successfully",
    }.get(node.phase, node.cordoned or explain(node.conditions))


def _paused(pool: Pool) -> str:
    """Return why purchases or automatic actions of `pool` wait; empty if none do."""
    if pool.deleted:
        return ""
    return why_paused(pool) or "; ".join(filter(None, (pool.braked, pool.held)))


def _note(pool: Pool, present: list[Node], obstacle: str | None) -> str:
    if pool.deleted:
        return f"being deleted: {len(present)} machines left"
    if paused := _paused(pool):
        return paused
    staying = [node for node in present if node.counts]
    missing = pool.size - len(staying)
    waiting = [node for node in staying if node.waiting]
    if waiting:
        bought = sum(node.instance is not None for node in waiting)
        return f"{bought} of {len(waiting)} machines of a gang exist; waiting for the others"
    refused = [node for node in staying if node.attempts and node.phase is Phase.REQUESTED]
    if refused:
        last = f": {obstacle}" if obstacle else ""
        return f"{len(refused)} refused by every provider so far, retrying{last}"
    if missing > 0 and len(present) >= pool.nodes_max:
        return f"{missing} delayed until machines that are leaving have made room"
    if missing > 0:
        return f"{missing} to be requested" + (f": {obstacle}" if obstacle else "")
    starting = sum(node.phase in (Phase.REQUESTED, Phase.BOOTING) for node in staying)
    if starting:
        return f"{starting} starting"
    held = [node.held for node in staying if node.held is not None and not node.held.released]
    if held:
        actions = "1 action" if len(held) == 1 else f"{len(held)} actions"
        return f"{actions} held back: {held[0].because}"
    spare = min(pool.spares, -missing)
    return f"{spare} of them spare" if spare > 0 else ""
