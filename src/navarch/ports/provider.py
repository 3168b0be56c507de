"""The port to a cloud, and the port that chooses where to buy the next machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from navarch.core.errors import ProviderError
from navarch.core.ids import InstanceId, PoolName, Token
from navarch.core.instance import Instance, InstanceCheck, Notice, Topology
from navarch.core.launch import Offering


class ProvisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, described fully: nothing is left for an adapter to decide.

    `token` identifies the attempt: for a token that was used before, a provider should return
    the machine of the first request. If a cloud has no such feature, the adapter looks for the
    token among the labels of the listed machines, as far as listings allow.
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
    image: str = ""
    """The image to boot; the provider's if empty."""
    reservation: str = ""
    """The capacity reservation for the machine; CapacityError if it is full."""
    group: str = ""
    """Machines of one group are placed in one block, or CapacityError is raised. The adapter
    creates what its cloud needs with the first request: a placement group, a policy."""
    group_size: int = 0
    """The number of machines of the group, for clouds that need it in advance."""
    zones: Sequence[str] = ()
    """Other zones of the region in which the machine may start instead, only for `provision_many`
    of a provider that `covers_zones`."""


class Provider(Protocol):
    """A source of machines: one cloud account, or one rack.

    An adapter translates. It does not retry, cache, rank or log; the wrapper around every
    provider does that. It raises only `ProviderError`, choosing the subclass by what the caller
    should do next; in particular `OutcomeUnknownError` whenever a machine may exist and its id is
    unknown.
    """

    @property
    def name(self) -> str:
        """The name by which pools refer to this provider."""

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine and return at once, without waiting for it to boot."""

    async def terminate(self, instance: InstanceId) -> None:
        """Stop paying for a machine; raise InstanceNotFoundError if it is gone."""

    async def list_instances(self) -> Sequence[Instance]:
        """Return every visible machine of the account, all pages, or raise."""


@runtime_checkable
class DeclaresListingLag(Protocol):
    """An ability: the provider declares how stale its listings can be."""

    @property
    def listing_lag(self) -> timedelta:
        """How long a machine may be missing from listings, or remain listed when it is gone."""


@runtime_checkable
class Reboots(Protocol):
    """An ability: the provider can restart the operating system of a machine."""

    async def reboot(self, instance: InstanceId) -> None:
        """Request it and return at once; raise InstanceNotFoundError if the machine is gone."""


@runtime_checkable
class PowerCycles(Protocol):
    """An ability: the provider can power-cycle a machine.

    It remains the same machine, with the same name, address and disks.
    """

    async def power_cycle(self, instance: InstanceId) -> None:
        """Request it and return at once; raise InstanceNotFoundError if the machine is gone."""


@runtime_checkable
class LabelsMachines(Protocol):
    """An ability: the provider can label a running machine, and remove a label.

    Both calls may be repeated. Other labels stay, and the next listing shows the effect.
    """

    async def put_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Give a machine a label; raise InstanceNotFoundError if the machine is gone."""

    async def remove_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Remove a label if it has that value; raise InstanceNotFoundError as above."""


@runtime_checkable
class BuysOncePerToken(Protocol):
    """An ability: the provider itself guarantees one machine per token.

    Without it, a launch with an unknown outcome is repeated only after the listings have had the
    time to show its result.
    """

    @property
    def buys_once_per_token(self) -> bool:
        """Whether a repeated token can never start a second machine."""


@runtime_checkable
class ProvisionsMany(Protocol):
    """An ability: the provider starts many machines of one kind in one call.

    Every machine has the labels of its own request from the moment it exists. So a listing proves
    its owner even if the response was lost.
    """

    @property
    def machines_per_call(self) -> int:
        """The most machines of one call; 1 if the account cannot do it."""

    @property
    def buys_many_once_per_token(self) -> bool:
        """Whether a token of such a call can be repeated by itself without a second machine.

        Without it, launches of a call with an unknown outcome are repeated only after the listings
        have had the time to show its result.
        """

    @property
    def covers_zones(self) -> bool:
        """Whether one call can start machines in several zones of a region."""

    async def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start machines, and return the machine or the error of each request, in order.

        The requests differ only in their tokens, names, labels and user data. Requests for a whole
        group are all fulfilled or all refused. An error that is raised applies to every request.
        With `zones`, the machines start in any of these zones and the first one, and CapacityError
        means that no more are left in any of them; every other refusal is about the first zone.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A notice of a provider about one machine."""

    instance: InstanceId
    notice: Notice


@runtime_checkable
class AnnouncesNotices(Protocol):
    """An ability: the provider announces maintenance and interruptions through its API.

    An adapter that receives events keeps them for as long as they are in force.
    """

    async def notices(self) -> Sequence[Announcement]:
        """Return every notice in force, or raise; a notice that is missing was withdrawn."""


@runtime_checkable
class DescribesTopology(Protocol):
    """An ability: the provider reports the place of a machine in its network."""

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the places of those machines that have one already; of 100 at most."""


@runtime_checkable
class ChecksInstances(Protocol):
    """An ability: the provider reports the state and the status checks of a machine."""

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the results for those machines, of 100 at most.

        A machine without a result is left out, as is one that the provider does not know: a
        missing machine is the subject of listings.
        """


@runtime_checkable
class ListsOfferings(Protocol):
    """An ability: the provider lists what it sells, and in which regions."""

    async def offerings(self) -> Sequence[Offering]:
        """Return every type of GPU machine in every region, or raise.

        A price of zero is unknown; the catalogue may have it.
        """


@runtime_checkable
class ListsSoldOut(Protocol):
    """An ability: the provider lists what is sold out at present."""

    async def sold_out(self) -> Sequence[Offering]:
        """Return what is sold out in all regions, without a region; or raise."""


class ProvisionOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option for the next machine of a pool."""

    pool: PoolName
    offering: Offering
    position: int
    """Its position in the pool's own list, from zero."""
    options: int
    """The number of options."""
    held: int = 0
    """How many machines the pool has, or has requested, at this offering's provider."""
    odds: float = 0.5
    """The estimated chance that it is available, by recent launches and refusals, from 0 to 1."""


class ProvisionScheduler(Protocol):
    """Scores options; the available option with the highest score is requested. Pure.

    Of equal scores the option nearest to the first choice wins: another zone of its region, then
    another region of its provider, then another provider. An option for which `score` raises
    comes last, with the error in the table behind the choice.

    ```python
    class Cheapest:
        def score(self, option: ProvisionOption) -> float:
            return -float(option.offering.price_per_hour)
    ```
    """

    def score(self, option: ProvisionOption) -> float:
        """Return the score of `option`; higher is better."""
