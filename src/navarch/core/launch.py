"""Launches: attempts to buy one machine, each under a token committed beforehand."""

from datetime import datetime
from decimal import Decimal

import msgspec

from navarch.core.gang import Gang
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.money import cost
from navarch.core.offering import Offering
from navarch.core.refusal import Refusal


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to buy one machine for one node, and its outcome.

    It is durable before the provider is called. Without an `instance` and without a
    `refused` reason the outcome is open: the machine may exist, and must be looked up
    by `token` before anything else is bought for the node.
    """

    token: Token
    node: NodeId
    pool: PoolName
    offering: Offering
    asked_at: datetime
    team: str = ""
    """The team that pays, taken from the pool at the time of the request."""
    told: str | None = None
    """A digest of the pool's `user_data` at the time of the request; None: not recorded."""
    gang: Gang | None = None
    """The gang it belongs to: the machine must be in the block of the gang."""
    refused: str | None = None
    refusal: Refusal | None = None
    """The class of the provider's refusal; None also if the launch was abandoned here."""
    refused_at: datetime | None = None
    instance: InstanceId | None = None
    public_address: str = ""
    private_address: str = ""
    price_per_hour: Decimal = Decimal(0)
    launched_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether a machine may exist that was not found yet."""
        return self.instance is None and self.refused is None

    def cost(self, now: datetime) -> Decimal:
        """Return the cost of this machine until `now`, or until its end."""
        if self.launched_at is None:
            return Decimal(0)
        return cost(self.price_per_hour, self.launched_at, self.ended_at or now)
