"""Pools: groups of like nodes with a size to keep."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from navarch.core.autoscaling import Autoscaling
from navarch.core.disruption import Disruption
from navarch.core.ids import NodeId, PoolName
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.machine_setup import MachineSetup
from navarch.core.records import evolve
from navarch.core.recovery import Remediation

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""Text that every cloud accepts as a part of a machine's name and as a label."""


def is_pool_name(text: str) -> bool:
    """Return whether a pool may have this name, which its machines carry at every cloud."""
    return _NAME.fullmatch(text) is not None


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration and size of one pool."""

    name: PoolName
    offerings: tuple[Offering, ...]
    """The offerings from which its machines are bought, best first."""
    nodes_min: int
    nodes_max: int
    nodes_wanted: int | None = None
    """The size last requested by an operator or an autoscaler; None: the minimum."""
    next_index: int = 0
    """The number of the next node. It only grows, so that no name is ever used twice."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    ssh_keys: tuple[str, ...] = ()
    user_data: str = ""
    """The whole user data of its machines, in place of what `setup` describes."""
    setup: MachineSetup = msgspec.field(default_factory=MachineSetup)
    """How its machines are set up."""
    auto_replace: bool = True
    unhealthy_after: int = 2
    """The number of unhealthy verdicts in a row, none of them fatal, that replace a node."""
    silent_after: timedelta = timedelta(minutes=10)
    """How long a node must be silent, without another fault, before it is replaced. Networks and
    control planes fail more often than machines, and most recover within minutes."""
    boot_deadline: timedelta = timedelta(minutes=10)
    """A machine that has not registered by then is abandoned. A long deadline costs an idle
    slot; a short one pays for two machines."""
    drain_timeout: timedelta = timedelta(minutes=5)
    """How long work on a node may take to end before the node is terminated."""
    autoscaling: Autoscaling | None = None
    """How its size follows its load; None: it keeps the size last requested."""
    cooldown: timedelta = timedelta(minutes=5)
    """How long an autoscaler waits after a change of size. Manual changes apply at once."""
    shrink_after: timedelta = timedelta(minutes=5)
    """How long an autoscaler must recommend fewer nodes before the pool shrinks."""
    scaled_at: datetime | None = None
    """When an operator or an autoscaler last changed its size."""
    spares: int = 0
    """The number of nodes it keeps above its size, ready to replace a broken node."""
    disruption: Disruption = msgspec.field(default_factory=Disruption)
    """The reasons and limits for replacing sound nodes."""
    gang: int = 0
    """The number of nodes bought together within one block, all or none; 0: one by one."""
    gang_hold: timedelta = timedelta(minutes=10)
    """How long machines of a gang are kept while the rest of it cannot be bought."""
    remediation: Remediation = msgspec.field(default_factory=Remediation)
    """The remedies for unhealthy nodes."""
    held: str | None = None
    """The reason why actions on its nodes are deferred; None: none are."""
    unreachable: bool = False
    """Whether many nodes, some of them in this pool, stopped reporting at once."""
    reachable_since: datetime | None = None
    """When that last ended. The `silent_after` of nodes that are still silent starts then."""
    braked: str | None = None
    """The reason why no machines are bought for it: earlier machines did not come up."""
    brake_released_at: datetime | None = None
    """When an operator last allowed purchases again: earlier failures do not count."""
    deleted: bool = False
    """Whether it is deleted. The record stays: a new pool of this name continues the count."""

    def __post_init__(self) -> None:
        assert self.deleted or 0 <= self.nodes_min <= self.nodes_max, self
        assert self.offerings, f"{self.name} has nowhere to buy"

    @property
    def setup_digest(self) -> str:
        """A digest of the operator's user data and image; empty if there is neither.

        What the server adds is not covered: an update of the server, another address of it or
        another way to start the agent makes no machine differ from what its pool would buy.
        """
        text, added = self.user_data, (self.setup.user_data, self.setup.image)
        if any(added):
            text = "\0".join((text, *added))
        return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""

    @property
    def request_digest(self) -> str:
        """A digest of what a launch requests besides the kind of machine and its place.

        A provider that rejects it for one pool may accept the request of another.
        """
        requested = (self.ssh_keys, sorted(self.labels.items()), self.user_data, self.setup)
        return hashlib.sha256(msgspec.json.encode(requested)).hexdigest()[:16]

    @property
    def team(self) -> str:
        """The team that pays for it: the label `team`."""
        return self.labels.get("team", "")

    @property
    def size(self) -> int:
        """The number of nodes this pool should have now."""
        if self.deleted:
            return 0
        wanted = self.nodes_min if self.nodes_wanted is None else self.nodes_wanted
        return self.whole_gangs(min(max(wanted, self.nodes_min), self.nodes_max))

    @property
    def target(self) -> int:
        """The number of nodes to keep: its size and its spares, as far as the maximum allows.

        Spares never exceed the limit, even if an older version stored a larger maximum.
        """
        size = self.size
        if not size or not self.spares:
            return size
        return self.whole_gangs(min(size + self.spares, self.nodes_max, NODES_PER_POOL_MAX))

    def whole_gangs(self, nodes: int) -> int:
        """Return `nodes` rounded to whole gangs: up, or down if that would exceed the maximum."""
        if not self.gang:
            return nodes
        rounded = -(-nodes // self.gang) * self.gang
        return rounded if rounded <= self.nodes_max else self.nodes_max // self.gang * self.gang

    def node_id(self, index: int) -> NodeId:
        """Return the name of the pool's node number `index`."""
        return NodeId(f"{self.name}-{index}")


def reshaped(before: Mapping[PoolName, Pool], pools: Iterable[Pool]) -> list[Pool]:
    """Return those of `pools` that are new or have changed in more than their count.

    No decision depends on the number of the next node: it only makes the next name.
    """
    changed: list[Pool] = []
    for pool in pools:
        old = before.get(pool.name)
        if old is None or (old is not pool and evolve(old, next_index=pool.next_index) != pool):
            changed.append(pool)
    return changed
