"""The Google Cloud provider."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from google.cloud import compute_v1 as compute

from navarch.core.errors import (
    CredentialError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName, Token
from navarch.core.instance import Instance, InstanceCheck, InstanceStatus, Topology
from navarch.core.launch import Offering
from navarch.core.ownership import CLUSTER
from navarch.core.records import evolve
from navarch.ports.clock import Clock
from navarch.ports.provider import Announcement, ProvisionRequest
from navarch.providers.gcp.bulk import bulk_insert, started_in, why_missing
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
from navarch.providers.shared_calls import call_token

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
    buys_many_once_per_token = False
    """Names are unique within a zone, and a call for many may have used another one."""
    covers_zones = True

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
        self._zones_of: dict[str, Sequence[str]] = {}

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
            send = partial(self._client.insert, zone, wanted)
            operation = await self._attempt(what, request.token, send)
        except RejectedError as error:
            if already_there(error):
                return await self._existing(request, zone)
            raise
        operation = await self._wait(what, self._client.operation, zone, operation)
        if _failed(operation):
            raise of_operation(what, _errors(operation))
        return self._pending(request, zone)

    @property
    def machines_per_call(self) -> int:
        """The most machines of one call. A call for many cannot be queued."""
        return 1 if self._settings.flex_start else self._settings.machines_per_call

    async def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start as many of these machines as there are, in one call if they share user data."""
        first = requests[0]
        if any(request.user_data != first.user_data for request in requests):
            return await asyncio.gather(*(self._result(request) for request in requests))
        try:
            return await self._bulk(requests)
        except (RejectedError, CredentialError):
            if not first.zones:
                raise
            # A mistake about one zone must not keep the others from being used, nor must an account
            # that may buy in a zone, but not look up the zones of its region.
            return await self._bulk([evolve(request, zones=()) for request in requests])

    async def _result(self, request: ProvisionRequest) -> Instance | ProviderError:
        try:
            if not request.zones:
                return await self.provision(request)
            (result,) = await self.provision_many([request])
        except ProviderError as error:
            return error
        return result

    async def _bulk(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start as many of these machines as there are, in one call."""
        first = requests[0]
        zone = zone_of(first, self._settings)
        wanted = bulk_insert(
            requests,
            self._settings,
            zone=zone,
            reservation_bound=await self._is_bound(first, zone),
            policy=await self._policy(first, zone),
            avoided=await self._zones(region_of(zone)) if first.zones else (),
        )
        what = f"insert {len(requests)} machines in {', '.join((zone, *first.zones))}"
        token, send = call_token(requests), self._client.bulk_insert
        try:
            operation = await self._attempt(what, token, partial(send, zone, wanted))
        except RejectedError as error:
            if already_there(error):
                raise OutcomeUnknownError(str(error)) from error
            raise
        poll = self._client.region_operation if first.zones else self._client.operation
        operation = await self._wait(
            what, poll, region_of(zone) if first.zones else zone, operation
        )
        try:
            inserts = await self._client.run(
                what, self._client.inserts, operation.operation_group_id, changes=False
            )
        except ProviderError as error:
            raise OutcomeUnknownError(str(error)) from error
        return self._results(what, requests, operation, inserts)

    def _results(
        self,
        what: str,
        requests: Sequence[ProvisionRequest],
        operation: Message,
        inserts: Sequence[Message],
    ) -> Sequence[Instance | ProviderError]:
        """Return the machine or the error of each request; raise the error of all."""
        missing = why_missing(what, operation, inserts, done=_done(operation))
        # A group of which one is missing was deleted again.
        whole = bool(requests[0].group) and requests[0].group_size == len(requests)
        started = {} if whole and _failed(operation) else started_in(inserts)
        if not started and len(missing) == 1:
            raise missing[""]
        return [
            self._pending(request, started[name])
            if (name := machine_name(request)) in started
            else missing.get(name, missing[""])
            for request in requests
        ]

    async def _zones(self, region: str) -> Sequence[str]:
        if region not in self._zones_of:
            self._zones_of[region] = await self._client.run(
                f"get region {region}", self._client.zones, region, changes=False
            )
        return self._zones_of[region]

    async def _wait(
        self, what: str, poll: Callable[[str, str], Message], scope: str, operation: Message
    ) -> Message:
        """Poll until the operation is done; a call that fails is repeated."""
        until = self._clock.monotonic() + POLL_FOR_S
        while not _done(operation) and self._clock.monotonic() < until:
            await self._clock.sleep(POLL_INTERVAL_S)
            with contextlib.suppress(ProviderError):
                operation = await self._client.run(what, poll, scope, operation.name, changes=False)
        return operation

    def _pending(self, request: ProvisionRequest, zone: str) -> Instance:
        return Instance(
            id=instance_id(zone, machine_name(request)),
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

    async def put_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Label one machine."""
        await self._relabel(instance, lambda labels: {**labels, key: value})

    async def remove_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Remove a label of one machine if it has that value."""
        item = (key, value)
        await self._relabel(
            instance, lambda labels: {x: y for x, y in labels.items() if (x, y) != item}
        )

    async def _relabel(
        self, instance: InstanceId, change: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> None:
        await self._do(
            "label", lambda zone, name: self._client.relabel(zone, name, change), instance
        )

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

    async def _attempt(self, what: str, token: Token, send: Callable[[str], Message]) -> Message:
        """Send a request and return an operation that has not failed yet, if there is one.

        For an hour or more, Compute Engine answers the request id of a failed launch with the
        same failure. The next id starts a new attempt; the machine's name prevents duplicates.
        """
        operation = None
        for attempt in range(REQUEST_IDS_MAX):
            fresh = request_id(token, attempt)
            operation = await self._client.run(what, send, fresh, changes=True)
            if not _failed(operation) or await self._has_started(what, operation):
                break
        return operation

    async def _has_started(self, what: str, operation: Message) -> bool:
        """Return whether a failed call for many machines started some of them nevertheless."""
        group = operation.operation_group_id
        if not group:
            return False
        inserts = await self._client.run(what, self._client.inserts, group, changes=True)
        return bool(started_in(inserts))

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
