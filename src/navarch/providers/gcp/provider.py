"""The Google Cloud provider."""

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
from navarch.core.instance import Instance, InstanceCheck, InstanceStatus, Topology
from navarch.core.launch import Offering
from navarch.core.ownership import CLUSTER
from navarch.ports.clock import Clock
from navarch.ports.provider import Announcement, ProvisionRequest
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.prices import PriceList, Rates
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
    parse_check,
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

POLL_INTERVAL_S = 1.0
"""How often an operation is polled. A stock-out is retried elsewhere within two seconds."""

POLL_FOR_S = 35.0
"""How long an operation is polled. Stock-outs show within half a minute; a machine that fails
later is missing from the listings."""

POLICY_POLLS = 15

TIDY_MAX = 5
"""The most old policies that one launch deletes."""

REQUEST_IDS_MAX = 5
"""The most request ids that one launch uses: its first, and one for each failed attempt."""


class GcpCloud:
    """The machines of one Google Cloud project."""

    listing_lag = LISTING_LAG
    """The longest that a new machine can be missing from listings."""
    buys_once_per_token = True
    """Compute Engine deduplicates by request id, and after that expires, by machine name."""

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
        self.name = ProviderName(settings.name)

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine, and poll its operation for as long as it is likely to fail."""
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
                return await self._existing(request, zone)
            raise
        # Poll until the operation is done; a call that fails is repeated.
        until = self._clock.monotonic() + POLL_FOR_S
        while not _done(operation) and self._clock.monotonic() < until:
            await self._clock.sleep(POLL_INTERVAL_S)
            with contextlib.suppress(ProviderError):
                poll = self._client.operation
                operation = await self._client.run(what, poll, zone, operation.name, changes=False)
        if _failed(operation):
            raise of_operation(what, _errors(operation))
        return Instance(
            id=instance_id(zone, wanted.name),
            provider=self.name,
            status=InstanceStatus.PENDING,
            instance_type=request.instance_type,
            region=region_of(zone),
            zone=zone,
            labels={**request.labels, PROVIDER: self.name},
            launched_at=self._clock.now(),
        )

    async def terminate(self, instance: InstanceId) -> None:
        """Start the deletion of one machine; listings confirm it."""
        await self._do("delete", self._client.delete, instance)

    async def reboot(self, instance: InstanceId) -> None:
        """Reset one machine. Compute Engine offers no graceful reboot."""
        await self._do("reset", self._client.reset, instance)

    async def offerings(self) -> Sequence[Offering]:
        """Return every machine type with GPUs in every zone."""
        kinds = await self._client.run(
            "list machine types", self._client.machine_types, GPU_MACHINES, changes=False
        )
        rates = Rates() if self._prices is None else await self._prices.rates()
        return [offering for kind in kinds for offering in parse_offerings(kind, rates, self.name)]

    async def list_instances(self) -> Sequence[Instance]:
        """Return every machine of the project with a cluster label, in every zone."""
        return [parse_instance(listed, self.name) for listed in await self._listed()]

    async def notices(self) -> Sequence[Announcement]:
        """Return the announced maintenance."""
        found = [(listed, parse_notice(listed)) for listed in await self._listed()]
        return [
            Announcement(instance=_id_of(listed), notice=notice)
            for listed, notice in found
            if notice is not None
        ]

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the physical position of machines, from one listing."""
        wanted = set(instances)
        found = {_id_of(listed): parse_topology(listed) for listed in await self._listed()}
        return {name: place for name, place in found.items() if place and name in wanted}

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the states of machines, from one listing."""
        wanted = set(instances)
        found = {_id_of(listed): parse_check(listed) for listed in await self._listed()}
        return {name: check for name, check in found.items() if check and name in wanted}

    async def _do(self, what: str, call: Callable[[str, str], None], instance: InstanceId) -> None:
        """Make one call that changes one machine."""
        zone, _, name = instance.partition("/")
        if not zone or not name:
            raise InstanceNotFoundError(f"{instance} is not an instance id of Compute Engine")
        try:
            await self._client.run(f"{what} {instance}", call, zone, name, changes=True)
        except RejectedError as error:
            if not_there(error):
                raise InstanceNotFoundError(str(error)) from error
            raise

    async def _listed(self) -> Sequence[Message]:
        wanted = f"labels.{CLUSTER}:*"
        listed = await self._client.run(
            "list instances", self._client.list_all, wanted, changes=False
        )
        # Several providers may share one project, each with its own settings.
        return [one for one in listed if one.labels.get(PROVIDER, self.name) == self.name]

    async def _insert(
        self, what: str, zone: str, wanted: compute.Instance, request: ProvisionRequest
    ) -> Message:
        """Create a machine and return an operation that has not failed yet, if there is one.

        For an hour or more, Compute Engine answers the request id of a failed launch with the
        same failure. The next id starts a new attempt; the machine's name prevents duplicates.
        """
        operation = None
        for attempt in range(REQUEST_IDS_MAX):
            fresh = request_id(request.token, attempt)
            operation = await self._client.run(
                what, self._client.insert, zone, wanted, fresh, changes=True
            )
            if not _failed(operation):
                break
        return operation

    async def _existing(self, request: ProvisionRequest, zone: str) -> Instance:
        """Return the machine that has this launch's name, after checking its token."""
        name = machine_name(request)
        try:
            found = await self._client.run(
                f"get {name}", self._client.get, zone, name, changes=False
            )
        except ProviderError as error:
            raise OutcomeUnknownError(str(error)) from error
        if token_of(found) != request.token:
            raise RejectedError(f"{zone} has a machine {name} that was not bought for this")
        return parse_instance(found, self.name)

    async def _is_bound(self, request: ProvisionRequest, zone: str) -> bool:
        """Return True if a reservation is dense: its machines are adjacent and end with it."""
        if not request.reservation:
            return False
        found = await self._client.run(
            f"get reservation {request.reservation} in {zone}",
            self._client.reservation,
            zone,
            request.reservation,
            changes=False,
        )
        return bool(found.deployment_type == "DENSE")

    async def _policy(self, request: ProvisionRequest, zone: str) -> str:
        """Return the placement policy of the request's group, created if missing."""
        if not request.group:
            return ""
        region, cluster = region_of(zone), request.labels.get(CLUSTER, "")
        name = policy_name(request.group, zone)
        what = f"insert policy {name} in {region}"
        wanted = placement_policy(name, cluster)
        try:
            operation = await self._client.run(
                what, self._client.insert_policy, region, wanted, changes=False
            )
        except RejectedError as error:
            if not already_there(error):
                raise
        else:
            await self._wait_for_policy(what, region, operation)
            await self._tidy(region, cluster)
        return f"projects/{self._client.project}/regions/{region}/resourcePolicies/{name}"

    async def _tidy(self, region: str, cluster: str) -> None:
        """Delete the policies of groups that no longer exist.

        Errors are ignored: Compute Engine does not delete a policy in use, and an unused one is
        free.
        """
        with contextlib.suppress(ProviderError):
            wanted = f'name eq "{POLICY_PREFIX}.*"'
            found = await self._client.run(
                "list policies", self._client.policies, region, wanted, changes=False
            )
            for policy in [x for x in found if left_over(x, cluster, self._clock.now())][:TIDY_MAX]:
                what, delete = f"delete policy {policy.name}", self._client.delete_policy
                with contextlib.suppress(ProviderError):
                    await self._client.run(what, delete, region, policy.name, changes=False)

    async def _wait_for_policy(self, what: str, region: str, operation: Message) -> None:
        for _ in range(POLICY_POLLS):
            if _done(operation):
                errors = _errors(operation)
                if errors and "ALREADY_EXISTS" not in errors[0][0]:
                    raise of_operation(what, errors)
                return
            await self._clock.sleep(POLL_INTERVAL_S)
            poll = self._client.region_operation
            operation = await self._client.run(what, poll, region, operation.name, changes=False)
        raise TransientError(f"{what}: not done after {POLICY_POLLS} s")


def _done(operation: Message) -> bool:
    return bool(operation.status == compute.Operation.Status.DONE)


def _failed(operation: Message) -> bool:
    return _done(operation) and bool(_errors(operation) or operation.http_error_status_code >= 400)


def _errors(operation: Message) -> list[tuple[str, str]]:
    return [(error.code, error.message) for error in operation.error.errors]


def _id_of(listed: Message) -> InstanceId:
    return instance_id(listed.zone.rpartition("/")[2], listed.name)
