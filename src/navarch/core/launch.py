"""Launches: attempts to buy one machine, each under a token written down beforehand."""

from datetime import datetime
from decimal import Decimal

import msgspec

from navarch.core.gang import Gang
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.money import cost
from navarch.core.offering import Offering
from navarch.core.refusal import Refusal


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to buy one machine for one node, and what became of it.

    It is durable before the provider is asked. Without an `instance` and without a
    `refused` reason the outcome is open: the machine may exist, and must be looked up
    by `token` before anything else is bought for the node.
    """

    token: Token
    node: NodeId
    pool: PoolName
    offering: Offering
    asked_at: datetime
    team: str = ""
    """Who pays, as the pool said when the machine was asked for."""
    told: str | None = None
    """A digest of the pool's `user_data` when the machine was asked for; None: not noted."""
    gang: Gang | None = None
    """The gang it is for: the machine must stand in its block."""
    refused: str | None = None
    refusal: Refusal | None = None
    """The class of the provider's refusal; None also where we gave up ourselves."""
    refused_at: datetime | None = None
    instance: InstanceId | None = None
    public_address: str = ""
    private_address: str = ""
    price_per_hour: Decimal = Decimal(0)
    launched_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether a machine may exist that we have not seen yet."""
        return self.instance is None and self.refused is None

    def cost(self, now: datetime) -> Decimal:
        """Return what this machine has cost until `now`, or until its end."""
        if self.launched_at is None:
            return Decimal(0)
        return cost(self.price_per_hour, self.launched_at, self.ended_at or now)
