"""Guarded providers: every call has a time limit and fails in one way only."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from navarch.control.runtime.extensions import Extension, ExtensionGuard, ExtensionKind
from navarch.core.errors import (
    ExtensionFailedError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.event import about
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceCheck, Topology
from navarch.core.records import evolve
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.provider import (
    Announcement,
    AnnouncesNotices,
    BuysOncePerToken,
    ChecksInstances,
    DeclaresListingLag,
    DescribesTopology,
    LabelsMachines,
    PowerCycles,
    Provider,
    ProvisionRequest,
    ProvisionsMany,
    Reboots,
)
from navarch.ports.shell import DescribesLogins, Login

P = ParamSpec("P")
T = TypeVar("T")

Confirm = Callable[[], Awaitable[None]]
"""Returns if this process may have an effect on the world, and raises StoreError if it may not."""


async def always_leads() -> None:
    """Return: there is no other process."""


CALL_TIMEOUT = timedelta(seconds=60)

LISTING_LAG = timedelta(minutes=2)
"""How stale a listing may be if the provider does not declare it. A value that is too short risks
buying twice; one that is too long only delays the second attempt after a lost answer."""


class GuardedProvider:
    """A provider that always answers in time, if only with an unknown outcome."""

    def __init__(
        self,
        provider: Provider,
        *,
        call_timeout: timedelta = CALL_TIMEOUT,
        metrics: "CallMetrics | None" = None,
        guard: ExtensionGuard | None = None,
        confirm: Confirm = always_leads,
    ) -> None:
        """`confirm` is awaited before each call that has an effect."""
        self._provider = provider
        self._confirm = confirm
        self._metrics = metrics or CallMetrics(NoMetrics())
        self._guard = guard or ExtensionGuard(_loop_time)
        self._call_timeout = call_timeout
        self.name = ProviderName(provider.name)
        lag = provider.listing_lag if isinstance(provider, DeclaresListingLag) else LISTING_LAG
        # A call that timed out here may still be on its way to the provider.
        self.settles_after = lag + call_timeout
        once = isinstance(provider, BuysOncePerToken) and provider.buys_once_per_token
        self.may_repeat_after = timedelta(0) if once else self.settles_after
        many = provider if isinstance(provider, ProvisionsMany) else None
        self.machines_per_call = 1 if many is None else many.machines_per_call
        self.covers_zones = self.machines_per_call > 1 and bool(many and many.covers_zones)
        many_once = once and (
            self.machines_per_call == 1 or bool(many and many.buys_many_once_per_token)
        )
        self.may_repeat_shared_after = timedelta(0) if many_once else self.settles_after
        self.listing_lag = lag
        self.announces = isinstance(provider, AnnouncesNotices)
        self.describes_topology = isinstance(provider, DescribesTopology)
        self.checks_instances = isinstance(provider, ChecksInstances)
        self.can_reboot = isinstance(provider, Reboots)
        self.can_power_cycle = isinstance(provider, PowerCycles)
        self.can_label = isinstance(provider, LabelsMachines)

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine. An unexpected error may have had an effect."""
        return await self._act(self._provider.provision, request)

    async def provision_all(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start machines in one call; return the machine or the error of each request, in order."""
        provider = self._provider
        if not self.covers_zones:
            # A launch of an earlier process, which was configured otherwise, may name zones.
            requests = [evolve(request, zones=()) for request in requests]
        try:
            if len(requests) == 1 and not requests[0].zones:
                return [await self.provision(requests[0])]
            assert isinstance(provider, ProvisionsMany), self.name
            results = await self._act(provider.provision_many, requests)
        except ProviderError as error:
            return [error] * len(requests)
        if len(results) == len(requests):
            return results
        text = f"{self.name} returned {len(results)} results for {len(requests)} machines"
        return [OutcomeUnknownError(text)] * len(requests)

    async def terminate(self, instance: InstanceId) -> None:
        """Stop paying for one machine."""
        await self._act(self._provider.terminate, instance)

    async def reboot(self, instance: InstanceId) -> None:
        """Restart the operating system of one machine."""
        provider = self._provider
        if not isinstance(provider, Reboots):
            raise RejectedError(f"{self.name} cannot reboot machines")
        await self._act(provider.reboot, instance)

    async def power_cycle(self, instance: InstanceId) -> None:
        """Switch one machine off and on."""
        provider = self._provider
        if not isinstance(provider, PowerCycles):
            raise RejectedError(f"{self.name} cannot switch machines off and on")
        await self._act(provider.power_cycle, instance)

    async def put_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Give one machine a label."""
        provider = self._provider
        assert isinstance(provider, LabelsMachines), self.name
        await self._act(provider.put_label, instance, key, value)

    async def remove_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Remove a label of one machine if it has that value."""
        provider = self._provider
        assert isinstance(provider, LabelsMachines), self.name
        await self._act(provider.remove_label, instance, key, value)

    def list_instances(self) -> Coroutine[Any, Any, Sequence[Instance]]:
        """Return every machine, or raise; never a part."""
        return self._in_time("list", TransientError, self._provider.list_instances)

    async def notices(self) -> Sequence[Announcement]:
        """Return everything that is announced."""
        assert isinstance(self._provider, AnnouncesNotices), self.name
        return await self._in_time("announce", TransientError, self._provider.notices)

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the network locations of these machines, as far as they are known."""
        provider = self._provider
        assert isinstance(provider, DescribesTopology), self.name
        return await self._in_time("describe", TransientError, provider.topology, instances)

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the states and status checks of these machines, as far as they are known."""
        provider = self._provider
        assert isinstance(provider, ChecksInstances), self.name
        return await self._in_time("check", TransientError, provider.instance_checks, instances)

    async def login(self, instance: InstanceId) -> Login | None:
        """Return how to log in to a machine; None if the provider does not describe it."""
        if not isinstance(self._provider, DescribesLogins):
            return None
        return await self._in_time("describe", TransientError, self._provider.login, instance)

    async def _act(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call that has an effect, unless another process leads by now."""
        await self._confirm()
        return await self._in_time("answer", OutcomeUnknownError, call, *args, **kwargs)

    async def _in_time(
        self,
        what: str,
        unsure: type[ProviderError],
        call: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Make a call; raise `unsure` if its outcome is unknown."""
        began, result = asyncio.get_running_loop().time(), "ok"
        name = getattr(call, "__name__", what)
        extension = Extension(
            kind=ExtensionKind.PROVIDER,
            name=self.name,
            subject=about("provider", self.name),
            part=name,
        )

        async def checked() -> T:
            found = await call(*args, **kwargs)
            if not _RESULTS.get(name, _anything)(found):
                raise TypeError(f"{name} returned {type(found).__name__} or holds what it may not")
            return found

        try:
            return await self._guard.wait_for(
                extension,
                self._provider,
                checked,
                within=self._call_timeout,
                answers=(ProviderError,),
            )
        except ProviderError as error:
            result = type(error).__name__
            raise
        except ExtensionFailedError as error:
            if isinstance(error.__cause__, TimeoutError):
                result = "timeout"
                raise unsure(f"{self.name} did not {what} in time") from error
            result = "error"
            raise unsure(f"{self.name}: {error.__cause__!r}") from error
        finally:
            took_s = asyncio.get_running_loop().time() - began
            self._metrics.results.add(provider=self.name, call=name, result=result)
            self._metrics.durations.observe(took_s, provider=self.name, call=name)


def _loop_time() -> datetime:
    """Return the time for a provider that is guarded by itself."""
    return datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)


def _anything(_found: object) -> bool:
    return True


def _all_are(*kinds: type) -> Callable[[object], bool]:
    def check(found: object) -> bool:
        # Thousands of machines have one type.
        return isinstance(found, Sequence) and all(
            issubclass(each, kinds) for each in set(map(type, found))
        )

    return check


def _values_are(kind: type) -> Callable[[object], bool]:
    def check(found: object) -> bool:
        return isinstance(found, Mapping) and all(isinstance(x, kind) for x in found.values())

    return check


_RESULTS: Mapping[str, Callable[[object], bool]] = {
    "provision": lambda found: isinstance(found, Instance),
    "provision_many": _all_are(Instance, ProviderError),
    "list_instances": _all_are(Instance),
    "notices": _all_are(Announcement),
    "topology": _values_are(Topology),
    "instance_checks": _values_are(InstanceCheck),
}
"""What a call must return. Half a listing is no listing: its other machines would seem lost."""


class CallMetrics:
    """What is measured of every call to a provider."""

    def __init__(self, metrics: Metrics) -> None:
        self.results = metrics.counter(
            "navarch_provider_calls_total",
            "Calls by provider, call and result: ok, timeout, error or the class of the error.",
            labels=("provider", "call", "result"),
        )
        self.durations = metrics.histogram(
            "navarch_provider_call_seconds",
            "Duration of a call to a provider.",
            labels=("provider", "call"),
        )


class Providers:
    """Every guarded provider by name."""

    def __init__(
        self,
        providers: Iterable[Provider],
        metrics: Metrics | None = None,
        guard: ExtensionGuard | None = None,
        confirm: Confirm = always_leads,
    ) -> None:
        self._guarded: dict[ProviderName, GuardedProvider] = {}
        measured = CallMetrics(metrics or NoMetrics())
        for provider in providers:
            guarded = GuardedProvider(provider, metrics=measured, guard=guard, confirm=confirm)
            assert guarded.name not in self._guarded, f"two providers are called {guarded.name}"
            self._guarded[guarded.name] = guarded

    def __iter__(self) -> Iterator[GuardedProvider]:
        return iter(self._guarded.values())

    def get(self, name: ProviderName) -> GuardedProvider:
        """Return the provider of that name, or raise TransientError: it may be configured again."""
        if name not in self._guarded:
            raise TransientError(f"no provider named {name!r} is configured")
        return self._guarded[name]

    def find(self, name: ProviderName | None) -> GuardedProvider | None:
        """Return the provider of that name, if there is one."""
        return None if name is None else self._guarded.get(name)

    async def list_machines(self) -> Sequence[Instance]:
        """Return the machines of every provider, or raise."""
        return [machine for each in self for machine in await each.list_instances()]

    def settles_after(self, name: ProviderName) -> timedelta:
        """Return how long after a call its effect is certain to show in a listing."""
        known = self._guarded.get(name)
        return known.settles_after if known else LISTING_LAG + CALL_TIMEOUT

    def may_repeat_after(self, name: ProviderName, *, shared: bool) -> timedelta:
        """Return how long after a call of unknown outcome a launch may be repeated.

        `shared`: the call may have been for several launches.
        """
        known = self._guarded.get(name)
        if known is None:
            return LISTING_LAG + CALL_TIMEOUT
        return known.may_repeat_shared_after if shared else known.may_repeat_after

    @property
    def machines_per_call(self) -> Mapping[ProviderName, int]:
        """The most machines of one call, at each provider that starts many at once."""
        return {x.name: x.machines_per_call for x in self if x.machines_per_call > 1}

    @property
    def covering_zones(self) -> frozenset[ProviderName]:
        """The providers that start machines in several zones of a region with one call."""
        return frozenset(x.name for x in self if x.covers_zones)
