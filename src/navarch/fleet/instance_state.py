"""The machine of a node as its provider lists it: observed, adopted or orphaned."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from navarch.core.fleet import Fleet
from navarch.core.ids import ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch, Offering, Progress
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Owner
from navarch.core.records import evolve
from navarch.fleet import lifecycle

STARTED = "the provider has started the machine"


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All machines of one provider at the moment of the query."""

    provider: ProviderName
    begun_at: datetime
    instances: Sequence[Instance]


def is_machine_of(node: Node, owner: Owner, instance: Instance) -> bool:
    """Return whether `instance`, with verified labels of `owner`, is the machine of `node`."""
    launch = node.launch
    if launch is None or launch.token != owner.token or launch.refused is not None:
        return False
    if launch.instance is not None and launch.instance != instance.id:
        return False
    return not node.gone or not instance.status.alive


def can_be_adopted(owner: Owner, instance: Instance, fleet: Fleet) -> bool:
    """Return whether a machine of this cluster lost its node through a loss of data."""
    pool = fleet.pools.get(owner.pool)
    if pool is None or pool.deleted or not instance.status.alive:
        return False
    index = _index(owner)
    # A number below the counter was assigned by this store, which has recorded the end of that
    # node.
    return index is not None and index >= pool.next_index


def seen(node: Node, instance: Instance, *, now: datetime) -> Node:
    """Return `node` after its machine was listed as `instance`; the same object if unchanged."""
    assert node.launch is not None, node.id
    launch = bought(node.launch, instance, now=now)
    status = instance.status
    if not status.alive:
        if status is InstanceStatus.TERMINATED:
            after = evolve(node, launch=launch)
            return lifecycle.gone(after, "the provider ended the machine", now=now)
        if node.phase is not Phase.TERMINATING:
            why = "the provider is taking the machine away"
            leaving = node.retiring or Retirement(reason=why)
            after, _ = lifecycle.terminate(node, why, now=now, launch=launch, retiring=leaving)
            return after
    return lifecycle.launched(node, launch, now=now)


def bought(launch: Launch, instance: Instance, *, now: datetime) -> Launch:
    """Return `launch` with what is known of its machine: `launch` itself if all of it is known.

    The price is the one at which the machine was first seen: a later listing shows the price of new
    machines.
    """
    pending = instance.status is InstanceStatus.PENDING and launch.registered_at is None
    if (
        launch.instance == instance.id
        and launch.launched_at is not None
        and (launch.adopted or instance.launched_at in (None, launch.launched_at))
        and instance.ended_at in (None, launch.ended_at)
        and instance.public_address in ("", launch.public_address)
        and instance.private_address in ("", launch.private_address)
        and pending is launch.pending
    ):
        return launch
    price = instance.price_per_hour if launch.instance is None else None
    # A machine that has reported a step has started, whenever the listing shows it.
    reported = launch.progress is not None and launch.progress.reports > 0
    started = launch.pending and not pending and not reported
    moved = launch.zones and instance.zone
    return evolve(
        launch,
        instance=instance.id,
        offering=evolve(launch.offering, zone=instance.zone) if moved else launch.offering,
        zones=(),
        public_address=instance.public_address or launch.public_address,
        private_address=instance.private_address or launch.private_address,
        price_per_hour=launch.price_per_hour if price is None else price,
        launched_at=(None if launch.adopted else instance.launched_at) or launch.launched_at or now,
        ended_at=instance.ended_at or launch.ended_at,
        pending=pending,
        progress=Progress(step=STARTED, at=now) if started else launch.progress,
    )


def orphan_launch(owner: Owner, instance: Instance, *, now: datetime) -> Launch:
    """Return the ledger entry of a machine of this cluster without a node."""
    offering = Offering(
        provider=instance.provider,
        instance_type=instance.instance_type,
        region=instance.region,
        zone=instance.zone,
    )
    began = instance.launched_at or now
    launch = Launch(
        token=owner.token, node=owner.node, pool=owner.pool, offering=offering, asked_at=began
    )
    closed = bought(launch, instance, now=now)
    if instance.status is InstanceStatus.TERMINATED and closed.ended_at is None:
        return evolve(closed, ended_at=now)
    return closed


def adopted(owner: Owner, instance: Instance, *, now: datetime) -> Node:
    """Return a node for a machine of this cluster that the store has lost."""
    launch = orphan_launch(owner, instance, now=now)
    return Node(
        id=owner.node,
        pool=owner.pool,
        phase=Phase.BOOTING,
        since=now,
        created_at=launch.asked_at,
        launch=launch,
    )


def next_index_after(owner: Owner, next_index: int) -> int:
    """Return the pool's counter once the number of `owner`'s node is taken."""
    index = _index(owner)
    return next_index if index is None else max(next_index, index + 1)


def _index(owner: Owner) -> int | None:
    prefix, _, number = owner.node.rpartition("-")
    return int(number) if prefix == owner.pool and number.isdecimal() else None
