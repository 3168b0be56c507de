"""Google's official Compute Engine client, one blocking call per method.

The client's own retries are off: they would hide the number and duration of calls. Its
long-running operations are off too: it would poll them at another address than the given one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import google.auth
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import compute_v1 as compute
from google.oauth2 import service_account

from navarch.core.errors import TransientError
from navarch.ports.clock import Offload
from navarch.providers.gcp.refusals import of_exception
from navarch.providers.gcp.translation import Message, region_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

COMPUTE = "https://www.googleapis.com/auth/compute"
PRICES = "https://www.googleapis.com/auth/cloud-billing.readonly"

ANSWER_S = 20.0
PAGE = 500

_CALL: dict[str, Any] = {"retry": None, "timeout": ANSWER_S}


def credentials_for(scope: str, *, file: str | None = None) -> Callable[[], Credentials]:
    """Return a loader of credentials: from a key file, or as Google's tools find them."""

    def found() -> Credentials:
        if file:
            # Errors do not quote the contents of the file.
            try:
                key: Credentials = service_account.Credentials.from_service_account_file(
                    file, scopes=[scope]
                )
            except OSError as error:
                raise DefaultCredentialsError(f"{file}: {error.strerror}") from error
            except ValueError:
                raise DefaultCredentialsError(
                    f"{file} is not the key of a service account"
                ) from None
            return key
        default, _ = google.auth.default(scopes=[scope])
        return default

    return found


def anonymous() -> Credentials:
    """Return empty credentials, for endpoints without TLS: no key is sent in the clear."""
    return AnonymousCredentials()


class ComputeClient:
    """The Compute Engine API of one project. The first call loads the credentials."""

    def __init__(
        self,
        offload: Offload,
        *,
        project: str,
        credentials: Callable[[], Credentials],
        endpoint: str | None = None,
    ) -> None:
        self._offload = offload
        self.project = project
        self._find_credentials = credentials
        self._credentials: Credentials | None = None
        self._options = ClientOptions(api_endpoint=endpoint) if endpoint else None
        self._clients: dict[Callable[..., Any], Any] = {}

    async def run(self, what: str, call: Callable[[*Ts], T], *arguments: *Ts, changes: bool) -> T:
        """Make a call on a thread, and translate its errors."""
        try:
            return await self._offload.run(partial(call, *arguments))
        except Exception as error:
            raise of_exception(what, error, changes=changes) from error

    def insert(self, zone: str, machine: compute.Instance, request_id: str) -> Message:
        """Start the creation of a machine and return the operation."""
        request = compute.InsertInstanceRequest(
            project=self.project, zone=zone, instance_resource=machine, request_id=request_id
        )
        return compute.Operation.pb(
            self._client(compute.InstancesClient).insert_unary(request, **_CALL)
        )

    def bulk_insert(
        self, zone: str, wanted: compute.BulkInsertInstanceResource, request_id: str
    ) -> Message:
        """Start the creation of many machines, in one zone or by its location policy."""
        if not wanted.location_policy.locations:
            zonal = compute.BulkInsertInstanceRequest(
                project=self.project,
                zone=zone,
                bulk_insert_instance_resource_resource=wanted,
                request_id=request_id,
            )
            instances = self._client(compute.InstancesClient)
            return compute.Operation.pb(instances.bulk_insert_unary(zonal, **_CALL))
        regional = compute.BulkInsertRegionInstanceRequest(
            project=self.project,
            region=region_of(zone),
            bulk_insert_instance_resource_resource=wanted,
            request_id=request_id,
        )
        regions = self._client(compute.RegionInstancesClient)
        return compute.Operation.pb(regions.bulk_insert_unary(regional, **_CALL))

    def inserts(self, group: str) -> Sequence[Message]:
        """Return the insertions of an operation for many machines, in every zone, or raise."""
        request = compute.AggregatedListGlobalOperationsRequest(
            project=self.project,
            filter=f"(operationGroupId eq {group}) AND (operationType eq insert)",
            max_results=PAGE,
        )
        found = self._client(compute.GlobalOperationsClient).aggregated_list(request, **_CALL)
        return [
            operation
            for page in found.pages
            for scope in _whole(compute.OperationAggregatedList.pb(page))
            for operation in scope.operations
        ]

    def zones(self, region: str) -> Sequence[str]:
        """Return the zones of a region."""
        request = compute.GetRegionRequest(project=self.project, region=region)
        found = self._client(compute.RegionsClient).get(request, **_CALL)
        return [url.rpartition("/")[2] for url in found.zones]

    def operation(self, zone: str, name: str) -> Message:
        """Return an operation of a zone."""
        request = compute.GetZoneOperationRequest(project=self.project, zone=zone, operation=name)
        return compute.Operation.pb(
            self._client(compute.ZoneOperationsClient).get(request, **_CALL)
        )

    def get(self, zone: str, name: str) -> Message:
        """Return one machine."""
        request = compute.GetInstanceRequest(project=self.project, zone=zone, instance=name)
        return compute.Instance.pb(self._client(compute.InstancesClient).get(request, **_CALL))

    def delete(self, zone: str, name: str) -> None:
        """Delete one machine."""
        request = compute.DeleteInstanceRequest(project=self.project, zone=zone, instance=name)
        self._client(compute.InstancesClient).delete_unary(request, **_CALL)

    def reset(self, zone: str, name: str) -> None:
        """Reset one machine: a hard restart."""
        request = compute.ResetInstanceRequest(project=self.project, zone=zone, instance=name)
        self._client(compute.InstancesClient).reset_unary(request, **_CALL)

    def relabel(
        self, zone: str, name: str, change: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> None:
        """Change the labels of one machine, unless others have changed them meanwhile."""
        machine = self.get(zone, name)
        before = dict(machine.labels)
        after = change(before)
        if after == before:
            return
        request = compute.SetLabelsInstanceRequest(
            project=self.project,
            zone=zone,
            instance=name,
            instances_set_labels_request_resource=compute.InstancesSetLabelsRequest(
                labels=after, label_fingerprint=machine.label_fingerprint
            ),
        )
        self._client(compute.InstancesClient).set_labels_unary(request, **_CALL)

    def list_all(self, wanted: str) -> Sequence[Message]:
        """Return the machines of every zone that match the filter, or raise."""
        request = compute.AggregatedListInstancesRequest(
            project=self.project, filter=wanted, max_results=PAGE
        )
        pages = self._client(compute.InstancesClient).aggregated_list(request, **_CALL).pages
        return [
            machine
            for page in pages
            for found in _whole(compute.InstanceAggregatedList.pb(page))
            for machine in found.instances
        ]

    def reservation(self, zone: str, name: str) -> Message:
        """Return a reservation of this project, or of another project that shares it."""
        project, short = self.project, name
        parts = name.split("/")
        if "projects" in parts[:-1] and "reservations" in parts[:-1]:
            project, short = parts[parts.index("projects") + 1], parts[-1]
        request = compute.GetReservationRequest(project=project, zone=zone, reservation=short)
        return compute.Reservation.pb(
            self._client(compute.ReservationsClient).get(request, **_CALL)
        )

    def insert_policy(self, region: str, policy: compute.ResourcePolicy) -> Message:
        """Start the creation of a placement policy and return the operation."""
        request = compute.InsertResourcePolicyRequest(
            project=self.project,
            region=region,
            resource_policy_resource=policy,
        )
        return compute.Operation.pb(
            self._client(compute.ResourcePoliciesClient).insert_unary(request, **_CALL)
        )

    def policies(self, region: str, wanted: str) -> Sequence[Message]:
        """Return the placement policies of a region that match the filter."""
        request = compute.ListResourcePoliciesRequest(
            project=self.project, region=region, filter=wanted, max_results=PAGE
        )
        found = self._client(compute.ResourcePoliciesClient).list(request, **_CALL)
        return [compute.ResourcePolicy.pb(policy) for policy in found]

    def delete_policy(self, region: str, name: str) -> None:
        """Delete a placement policy. Compute Engine refuses while a machine uses it."""
        request = compute.DeleteResourcePolicyRequest(
            project=self.project, region=region, resource_policy=name
        )
        self._client(compute.ResourcePoliciesClient).delete_unary(request, **_CALL)

    def region_operation(self, region: str, name: str) -> Message:
        """Return an operation of a region."""
        request = compute.GetRegionOperationRequest(
            project=self.project, region=region, operation=name
        )
        return compute.Operation.pb(
            self._client(compute.RegionOperationsClient).get(request, **_CALL)
        )

    def machine_types(self, wanted: str) -> Sequence[Message]:
        """Return the machine types of every zone that match the filter, or raise."""
        request = compute.AggregatedListMachineTypesRequest(
            project=self.project, filter=wanted, max_results=PAGE
        )
        pages = self._client(compute.MachineTypesClient).aggregated_list(request, **_CALL).pages
        return [
            kind
            for page in pages
            for found in _whole(compute.MachineTypeAggregatedList.pb(page))
            for kind in found.machine_types
        ]

    def _client(self, kind: Callable[..., T]) -> T:
        """Return the client for one part of the API, created on first use."""
        if kind not in self._clients:
            if self._credentials is None:
                self._credentials = self._find_credentials()
            self._clients[kind] = kind(credentials=self._credentials, client_options=self._options)
        client: T = self._clients[kind]
        return client


def _whole(page: Message) -> Iterator[Message]:
    """Yield the zones of a page; raise TransientError if a zone is missing.

    The caller would take a partial listing for a complete one.
    """
    if page.unreachables:
        raise TransientError(f"unreachable: {', '.join(page.unreachables)}")
    for scope, found in page.items.items():
        warning = found.warning.code if found.HasField("warning") else ""
        if warning and warning != "NO_RESULTS_ON_PAGE":
            raise TransientError(f"{scope}: {warning}: {found.warning.message}")
        yield found
