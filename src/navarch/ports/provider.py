"""What Navarch asks of a cloud."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance
from navarch.core.notice import Notice
from navarch.core.offering import Offering
from navarch.core.topology import Topology


class ProvisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, described fully: nothing is left for an adapter to decide.

    `token` names the attempt. Asked twice with one token, a provider should return the
    machine of the first time. Where a cloud has no such thing the adapter looks the
    token up among the labels, which carry it too, as well as listings allow.
    """

    token: Token
    name: str
    instance_type: str
    region: str = ""
    zone: str = ""
    spot: bool = False
    ssh_keys: Sequence[str] = ()
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_data: str = ""
    reservation: str = ""
    """The capacity reservation to take the machine from; CapacityError when it is full."""
    group: str = ""
    """Machines of one group stand within one block, or CapacityError is raised. The adapter makes
    whatever its cloud needs for that when the first is asked for: a placement group, a policy."""
    group_size: int = 0
    """How many machines the group will have, for clouds that want to know beforehand."""


class Provider(Protocol):
    """A source of machines: one cloud account, or one rack.

    An adapter translates. It does not retry, cache, rank or log; those belong to the
    wrapper that every provider is dressed in (`navarch.control.providers`). It raises
    only `ProviderError`, choosing the subclass by what the caller should do next; in
    particular `OutcomeUnknownError` whenever a machine may exist that it cannot name.
    """

    @property
    def name(self) -> str:
        """The name pools use to refer to this provider."""
        ...

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine and return at once, without waiting for it to boot."""
        ...

    async def terminate(self, instance: InstanceId) -> None:
        """Stop paying for a machine; raise InstanceNotFoundError if it is gone."""
        ...

    async def list_instances(self) -> Sequence[Instance]:
        """Return every machine of the account that it can see, all pages, or raise."""
        ...


@runtime_checkable
class DeclaresListingLag(Protocol):
    """An ability: the provider knows how stale its listings can be."""

    @property
    def listing_lag(self) -> timedelta:
        """How long a machine may exist unlisted, or stay listed when it is gone."""
        ...


@runtime_checkable
class Reboots(Protocol):
    """An ability: the provider can restart the operating system of a machine."""

    async def reboot(self, instance: InstanceId) -> None:
        """Ask for it and return at once; raise InstanceNotFoundError if the machine is gone."""
        ...


@runtime_checkable
class PowerCycles(Protocol):
    """An ability: the provider can take a machine's power away and give it back.

    It stays the same machine, with the same name, address and disks.
    """

    async def power_cycle(self, instance: InstanceId) -> None:
        """Ask for it and return at once; raise InstanceNotFoundError if the machine is gone."""
        ...


@runtime_checkable
class BuysOncePerToken(Protocol):
    """An ability: the provider itself sees to it that one token buys one machine.

    Without it a purchase whose outcome is unknown is only repeated once the listings have had
    the time to show what came of it.
    """

    @property
    def buys_once_per_token(self) -> bool:
        """Whether the same token, given again, can never start a second machine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a provider says it is about to do to one machine."""

    instance: InstanceId
    notice: Notice


@runtime_checkable
class AnnouncesNotices(Protocol):
    """An ability: the provider tells its customers what it will do, and not only the machine.

    An adapter that gets events keeps them for as long as they stand.
    """

    async def notices(self) -> Sequence[Announcement]:
        """Return everything that is announced now; what is missing is called off. Or raise."""
        ...


@runtime_checkable
class DescribesTopology(Protocol):
    """An ability: the provider says where in its network a machine stands."""

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return where the machines stand of which that is known already; at most 100 are asked."""
        ...


@runtime_checkable
class ListsOfferings(Protocol):
    """An ability: the provider says what it sells, and where."""

    async def offerings(self) -> Sequence[Offering]:
        """Return every kind of GPU machine at every place, or raise.

        A price of zero is one that the provider does not tell; the catalogue may know it.
        """
        ...


@runtime_checkable
class TellsSoldOut(Protocol):
    """An ability: the provider says what it sells and has none of at present."""

    async def sold_out(self) -> Sequence[Offering]:
        """Return what cannot be had anywhere now, without a region; or raise."""
        ...
