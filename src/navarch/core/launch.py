"""Launches: attempts to buy a machine, and the pauses between them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import msgspec

from navarch.core.budget import cost
from navarch.core.duration import backoff_s
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    ProviderError,
    QuotaError,
    RegionQuotaError,
    RejectedError,
)
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.records import evolve

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)

HUMAN_PAUSE = timedelta(minutes=15)
"""The pause between attempts that fail until an operator acts: a quota, a key, a typo. Long
enough to spare the provider, short enough to find the correction soon."""


def pause(failures: int) -> timedelta:
    """Return the pause after that many failures in a row."""
    first_s, longest_s = FIRST_PAUSE.total_seconds(), LONGEST_PAUSE.total_seconds()
    return timedelta(seconds=backoff_s(failures, first_s=first_s, longest_s=longest_s))


class Offering(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of machine at one place, for one price."""

    provider: ProviderName
    instance_type: str
    region: str = ""
    zone: str = ""
    spot: bool = False
    gpus: int = 8
    gpu_type: str = ""
    price_per_hour: Decimal = Decimal(0)
    reservation: str = ""
    """The capacity reservation it uses. Reserved machines are paid for anyway and bought first."""
    reserved_nodes: int | None = None
    """The number of machines in the reservation; None: only the provider has that number."""

    @property
    def capacity_type(self) -> str:
        """The way it is paid for: reserved, spot or on demand."""
        if self.reservation:
            return "reserved"
        return "spot" if self.spot else "on demand"

    def __str__(self) -> str:
        place = self.zone or self.region
        return f"{self.instance_type} at {self.provider}" + (f" in {place}" if place else "")


def in_zones(offering: Offering, zones: Iterable[str]) -> tuple[Offering, ...]:
    """Return `offering`, and the same offering in each of these other zones."""
    return (offering, *(evolve(offering, zone=zone) for zone in zones))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Machines of one kind within one block, bought all or none."""

    id: str
    """The name of the gang and of its placement group at the provider."""
    nodes: int
    offering: Offering
    """The offering of all its machines: a block is at one place."""


class Refusal(StrEnum):
    """The class of a refusal. It decides which offerings are avoided, and for how long."""

    CAPACITY = "capacity"
    """That kind of machine is sold out at that place."""
    QUOTA = "quota"
    """The account may not have more of that kind in any region."""
    REGION_QUOTA = "region-quota"
    """The account may not have more of that kind in that region."""
    CREDENTIAL = "credential"
    """The provider rejects our credentials."""
    REJECTED = "rejected"
    """The provider considers the request invalid."""
    BLOCK = "block"
    """No block at that place has room for so many machines together."""
    TRANSIENT = "transient"
    """Other errors occurred several times in a row."""


_BY_ERROR: tuple[tuple[type[ProviderError], Refusal], ...] = (
    (CapacityError, Refusal.CAPACITY),
    (RegionQuotaError, Refusal.REGION_QUOTA),
    (QuotaError, Refusal.QUOTA),
    (CredentialError, Refusal.CREDENTIAL),
    (RejectedError, Refusal.REJECTED),
)


def refusal_of(error: ProviderError) -> Refusal:
    """Return the class of the refusal that `error` reports."""
    for kind, refusal in _BY_ERROR:
        if isinstance(error, kind):
            return refusal
    return Refusal.TRANSIENT


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The latest step of a machine that boots."""

    step: str
    """Empty if only a failure is known."""
    at: datetime
    failed: str = ""
    """Why its boot script has failed since; empty if it has not, or began anew."""
    reports: int = 0
    """How many steps the machine itself has reported."""


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
    setup_digest: str | None = msgspec.field(default=None, name="told")
    """The digest `Pool.setup_digest` at the time of the request; None: not recorded."""
    request: str = ""
    """The digest `Pool.request_digest` at the time of the request; empty: not recorded."""
    gang: Gang | None = None
    """The gang it belongs to: the machine must be in the block of the gang."""
    zones: tuple[str, ...] = ()
    """Other zones of the offering's region in which the provider may start the machine instead.
    Empty once the machine is known: `offering` then has its zone."""
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
    pending: bool = False
    """Whether the provider has bought but not started the machine, as last listed."""
    progress: Progress | None = None
    """The last proof that the machine is coming up, until its agent registers."""
    registered_at: datetime | None = None
    """When its agent first registered; None also for launches of older versions."""
    adopted: bool = False
    """Whether its machine ran already and was taken in, so that its labels do not prove it ours."""

    @property
    def offerings(self) -> tuple[Offering, ...]:
        """The offering in every zone in which the machine may start, the preferred one first."""
        return in_zones(self.offering, self.zones)

    @property
    def open(self) -> bool:
        """Whether a machine may exist that was not found yet."""
        return self.instance is None and self.refused is None

    def cost(self, now: datetime) -> Decimal:
        """Return the cost of this machine until `now`, or until its end."""
        if self.launched_at is None:
            return Decimal(0)
        return cost(self.price_per_hour, self.launched_at, self.ended_at or now)
