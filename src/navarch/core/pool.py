"""Pools: groups of like nodes with a size to keep."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from navarch.core.autoscaling import Autoscaling
from navarch.core.disruption import Disruption
from navarch.core.ids import NodeId, PoolName
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.offering import Offering
from navarch.core.remediation import Remediation

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""What every cloud accepts as a part of a machine's name and as a label."""


def is_pool_name(text: str) -> bool:
    """Return whether a pool may be called so: its machines carry the name at every cloud."""
    return _NAME.fullmatch(text) is not None


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator asked for."""

    name: PoolName
    offerings: tuple[Offering, ...]
    """Where its machines may be bought, best first."""
    nodes_min: int
    nodes_max: int
    nodes_wanted: int | None = None
    """The size last asked for, by hand or by an autoscaler; the minimum if nobody did."""
    next_index: int = 0
    """The number of the next node. It only grows, so that no name is ever used twice."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    ssh_keys: tuple[str, ...] = ()
    user_data: str = ""
    auto_replace: bool = True
    unhealthy_after: int = 2
    """How many unhealthy verdicts in a row, none of them fatal, make a node be replaced."""
    silent_after: timedelta = timedelta(minutes=10)
    """How long a node must be silent, with nothing else wrong, before it is replaced. Networks and
    control planes fail more often than machines, and most come back within minutes."""
    boot_deadline: timedelta = timedelta(minutes=10)
    """Past this a machine that has not registered is given up. Waiting too long costs an idle
    slot; giving up too early pays for two machines."""
    drain_timeout: timedelta = timedelta(minutes=5)
    """How long work on a node that must go may take to leave."""
    autoscaling: Autoscaling | None = None
    """How its size follows its load; if not at all, it keeps the size last asked for."""
    cooldown: timedelta = timedelta(minutes=5)
    """How long an autoscaler waits after a change of size. Changes by hand wait for nothing."""
    shrink_after: timedelta = timedelta(minutes=5)
    """For how long an autoscaler must want fewer nodes before there are fewer."""
    scaled_at: datetime | None = None
    """When its size was last changed, by hand or by an autoscaler."""
    spares: int = 0
    """How many nodes it keeps above its size, ready to take over from one that breaks."""
    disruption: Disruption = msgspec.field(default_factory=Disruption)
    """Why and how fast sound nodes are replaced."""
    gang: int = 0
    """How many nodes come together, within one block, all or none; nothing: each by itself."""
    gang_hold: timedelta = timedelta(minutes=10)
    """How long machines of a gang are kept while others of it are not to be had."""
    remediation: Remediation = msgspec.field(default_factory=Remediation)
    """What is done about nodes that are not well."""
    held: str | None = None
    """Why something that should be done about its nodes is not done at present."""
    unreachable: bool = False
    """Whether many nodes stopped reporting at once, some of this pool among them."""
    reachable_since: datetime | None = None
    """When that last ended. A node that is still silent has `silent_after` from then on."""
    braked: str | None = None
    """Why no machines are bought for it at present: those before did not come up."""
    brake_released_at: datetime | None = None
    """When somebody last let it buy again: what failed before that does not count any more."""
    deleted: bool = False
    """Torn down. The record stays, so that a later pool of this name goes on counting."""

    def __post_init__(self) -> None:
        assert self.deleted or 0 <= self.nodes_min <= self.nodes_max, self
        assert self.offerings, f"{self.name} has nowhere to buy"

    @property
    def tells(self) -> str:
        """A digest of what its machines are told at their first boot; nothing for nothing."""
        return _digest(self.user_data)

    @property
    def team(self) -> str:
        """Who pays for it: the label `team`."""
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

        Spares go no further than the limit, whatever maximum an older version has stored.
        """
        size = self.size
        if not size or not self.spares:
            return size
        return self.whole_gangs(min(size + self.spares, self.nodes_max, NODES_PER_POOL_MAX))

    def whole_gangs(self, nodes: int) -> int:
        """Return `nodes` rounded to whole gangs: up, unless the maximum is in the way."""
        if not self.gang:
            return nodes
        rounded = -(-nodes // self.gang) * self.gang
        return rounded if rounded <= self.nodes_max else self.nodes_max // self.gang * self.gang

    def node_id(self, index: int) -> NodeId:
        """Return the name of the pool's node number `index`."""
        return NodeId(f"{self.name}-{index}")
