"""The provider for Google Cloud."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from google.cloud import compute_v1 as compute

from navarch.core.errors import (
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.offering import Offering
from navarch.core.ownership import CLUSTER
from navarch.core.topology import Topology
from navarch.ports.clock import Clock
from navarch.ports.provider import Announcement, ProvisionRequest
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.pricelist import PriceList
from navarch.providers.gcp.prices import Rates
from navarch.providers.gcp.refusals import already_there, not_there, of_operation
from navarch.providers.gcp.translation import (
    GPU_MACHINES,
    POLICY_PREFIX,
    PROVIDER,
    GcpSettings,
    Message,
    instance_id,
    left_over,
    machine,
    machine_name,
    parse_instance,
    parse_notice,
    parse_offerings,
    parse_topology,
    placement_policy,
    policy_name,
    region_of,
    request_id,
    token_of,
    zone_of,
)

LISTING_LAG = timedelta(seconds=30)

LOOK_EVERY_S = 1.0
"""How often to see how an operation stands. A stock-out should be tried elsewhere within two
seconds of becoming known."""

LOOK_FOR_S = 35.0
"""How long. Stock-outs show within half a minute; after that the machine is as good as bought,
and if it should not come after all, the listings tell."""


POLICY_LOOKS = 15

TIDY_MAX = 5
"""How many old policies one launch takes the time to delete."""

REQUEST_IDS_MAX = 5
"""How often one launch may be asked for anew after it has failed."""


class GcpCloud:
    """One project at Google Cloud."""

    def __init__(
        self,
        clock: Clock,
        client: ComputeClient,
        settings: GcpSettings,
        *,
        prices: PriceList | None = None,
    ) -> None:
        self._clock = clock
        self._client = client
        self._settings = settings
        self._prices = prices
        self._name = ProviderName(settings.name)

    @property
    def name(self) -> str:
        """The name pools use."""
        return self._name

    @property
    def listing_lag(self) -> timedelta:
        """How stale a listing can be."""
        return LISTING_LAG

    @property
    def buys_once_per_token(self) -> bool:
        """Yes: by the request id, and when that is forgotten, by the machine's name."""
        return True

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine, and see its operation through for as long as it may be refused."""
        zone = zone_of(request, self._settings)
        wanted = machine(
            request,
            self._settings,
            zone=zone,
            reservation_bound=await self._is_bound(request, zone),
            policy=await self._policy(request, zone),
        )
        what = f"insert {wanted.name} in {zone}"
        try:
            operation = await self._insert(what, zone, wanted, request)
        except RejectedError as error:
            if already_there(error):
                return await self._of_that_name(request, zone)
            raise
        await self._see_through(what, zone, operation)
        return Instance(
            id=instance_id(zone, wanted.name),
            provider=self._name,
            status=InstanceStatus.PENDING,
            instance_type=request.instance_type,
            region=region_of(zone),
            zone=zone,
            labels={**request.labels, PROVIDER: self._name},
            launched_at=self._clock.now(),
        )

    async def terminate(self, instance: InstanceId) -> None:
        """Delete one machine; that it is gone is for the listings to show."""
        await self._do("delete", self._client.delete, instance)

    async def reboot(self, instance: InstanceId) -> None:
        """Restart one machine. Compute Engine knows no gentler way than the reset button."""
        await self._do("reset", self._client.reset, instance)

    async def offerings(self) -> Sequence[Offering]:
        """Return every kind of machine with GPUs in every zone."""
        kinds = await self._client.run(
            "list machine types",
            lambda: self._client.machine_types(GPU_MACHINES),
            changes=False,
        )
        rates = Rates() if self._prices is None else await self._prices.rates()
        return [offering for kind in kinds for offering in parse_offerings(kind, rates, self._name)]

    async def list_instances(self) -> Sequence[Instance]:
        """Return every machine of the project that wears a cluster's label, in every zone."""
        return [parse_instance(listed, self._name) for listed in await self._listed()]

    async def notices(self) -> Sequence[Announcement]:
        """Return the maintenance that is coming."""
        found = [(listed, parse_notice(listed)) for listed in await self._listed()]
        return [
            Announcement(instance=_id_of(listed), notice=notice)
            for listed, notice in found
            if notice is not None
        ]

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return where machines stand. One listing says it of all of them."""
        asked = set(instances)
        found = {_id_of(listed): parse_topology(listed) for listed in await self._listed()}
        return {name: place for name, place in found.items() if place and name in asked}

    async def _do(self, what: str, call: Callable[[str, str], None], instance: InstanceId) -> None:
        """Do something to one machine."""
        zone, name = _place(instance)
        try:
            await self._client.run(f"{what} {instance}", lambda: call(zone, name), changes=True)
        except RejectedError as error:
            if not_there(error):
                raise InstanceNotFoundError(str(error)) from error
            raise

    async def _listed(self) -> Sequence[Message]:
        listed = await self._client.run(
            "list instances",
            lambda: self._client.list_all(f"labels.{CLUSTER}:*"),
            changes=False,
        )
        # Several providers may buy in one project, each with settings of its own.
        return [one for one in listed if one.labels.get(PROVIDER, self._name) == self._name]

    async def _insert(
        self, what: str, zone: str, wanted: compute.Instance, request: ProvisionRequest
    ) -> Message:
        """Ask for a machine; returns an operation that has not failed before, if there is one.

        Under the request id of a launch that has failed one is only told of that failure again,
        for an hour and more. The next id asks anew, and the name sees to it that no two come of it.
        """
        operation = await self._insert_once(what, zone, wanted, request_id(request.token))
        for attempt in range(1, REQUEST_IDS_MAX):
            if not _failed(operation):
                break
            asked = request_id(request.token, attempt)
            operation = await self._insert_once(what, zone, wanted, asked)
        return operation

    async def _insert_once(
        self, what: str, zone: str, wanted: compute.Instance, asked: str
    ) -> Message:
        return await self._client.run(
            what, lambda: self._client.insert(zone, wanted, asked), changes=True
        )

    async def _see_through(self, what: str, zone: str, operation: Message) -> None:
        """Raise what an accepted operation is refused for, if that is known soon."""
        until = self._clock.monotonic() + LOOK_FOR_S
        while not _done(operation):
            if self._clock.monotonic() >= until:
                return
            await self._clock.sleep(LOOK_EVERY_S)
            operation = await self._look(what, zone, operation)
        if _failed(operation):
            raise of_operation(what, _errors(operation))

    async def _look(self, what: str, zone: str, operation: Message) -> Message:
        """Return how an operation stands; as before if nobody answers, for it goes on anyway."""
        try:
            return await self._client.run(
                what, lambda: self._client.operation(zone, operation.name), changes=False
            )
        except ProviderError:
            return operation

    async def _of_that_name(self, request: ProvisionRequest, zone: str) -> Instance:
        """Return the machine that a launch found in its place: it came from the same token."""
        name = machine_name(request)
        try:
            found = await self._client.run(
                f"get {name}", lambda: self._client.get(zone, name), changes=False
            )
        except ProviderError as error:
            raise OutcomeUnknownError(str(error)) from error
        if token_of(found) != request.token:
            raise RejectedError(f"{zone} has a machine {name} that was not bought for this")
        return parse_instance(found, self._name)

    async def _is_bound(self, request: ProvisionRequest, zone: str) -> bool:
        """Return whether a reservation's machines stand together, and live only as long as it."""
        if not request.reservation:
            return False
        found = await self._client.run(
            f"get reservation {request.reservation} in {zone}",
            lambda: self._client.reservation(zone, request.reservation),
            changes=False,
        )
        return bool(found.deployment_type == "DENSE")

    async def _policy(self, request: ProvisionRequest, zone: str) -> str:
        """Return the policy that keeps a group together, made if it is not there."""
        if not request.group:
            return ""
        region, cluster = region_of(zone), request.labels.get(CLUSTER, "")
        name = policy_name(request.group, zone)
        what = f"insert policy {name} in {region}"
        wanted = placement_policy(name, cluster)
        try:
            operation = await self._client.run(
                what, lambda: self._client.insert_policy(region, wanted), changes=False
            )
        except RejectedError as error:
            if not already_there(error):
                raise
        else:
            await self._wait_for_policy(what, region, operation)
            await self._tidy(region, cluster)
        return f"projects/{self._client.project}/regions/{region}/resourcePolicies/{name}"

    async def _tidy(self, region: str, cluster: str) -> None:
        """Delete the policies of groups that are gone; whoever makes one cleans up.

        Nothing can go wrong here that matters: a policy in use is not deleted, and one that
        stays costs nothing.
        """
        with contextlib.suppress(ProviderError):
            found = await self._client.run(
                "list policies",
                lambda: self._client.policies(region, f'name eq "{POLICY_PREFIX}.*"'),
                changes=False,
            )
            for policy in [x for x in found if left_over(x, cluster, self._clock.now())][:TIDY_MAX]:
                await self._delete_policy(region, policy.name)

    async def _delete_policy(self, region: str, name: str) -> None:
        with contextlib.suppress(ProviderError):
            await self._client.run(
                f"delete policy {name}",
                lambda: self._client.delete_policy(region, name),
                changes=False,
            )

    async def _wait_for_policy(self, what: str, region: str, operation: Message) -> None:
        for _ in range(POLICY_LOOKS):
            if _done(operation):
                errors = _errors(operation)
                if errors and "ALREADY_EXISTS" not in errors[0][0]:
                    raise of_operation(what, errors)
                return
            await self._clock.sleep(LOOK_EVERY_S)
            operation = await self._look_at_region(what, region, operation)
        raise TransientError(f"{what}: it takes its time")

    async def _look_at_region(self, what: str, region: str, operation: Message) -> Message:
        return await self._client.run(
            what, lambda: self._client.region_operation(region, operation.name), changes=False
        )


def _place(instance: InstanceId) -> tuple[str, str]:
    zone, _, name = instance.partition("/")
    if not zone or not name:
        raise InstanceNotFoundError(f"{instance} is no machine at Compute Engine")
    return zone, name


def _done(operation: Message) -> bool:
    return bool(operation.status == compute.Operation.Status.DONE)


def _failed(operation: Message) -> bool:
    return _done(operation) and bool(_errors(operation) or operation.http_error_status_code >= 400)


def _errors(operation: Message) -> list[tuple[str, str]]:
    return [(error.code, error.message) for error in operation.error.errors]


def _id_of(listed: Message) -> InstanceId:
    return instance_id(listed.zone.rpartition("/")[2], listed.name)
