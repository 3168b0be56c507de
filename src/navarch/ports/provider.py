"""What Navarch asks of a cloud."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, runtime_checkable

from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionRequest:
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
    labels: Mapping[str, str] = field(default_factory=dict)
    user_data: str = ""


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
class BuysOncePerToken(Protocol):
    """An ability: the provider itself sees to it that one token buys one machine.

    Without it a purchase whose outcome is unknown is only repeated once the listings have had
    the time to show what came of it.
    """

    @property
    def buys_once_per_token(self) -> bool:
        """Whether the same token, given again, can never start a second machine."""
        ...
