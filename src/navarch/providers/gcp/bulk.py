"""Calls that create many machines, as Compute Engine's bulkInsert takes and answers them; pure.

All machines of a call share their labels and metadata, but each has the name that the request gives
it. So the labels in which they differ are in the metadata, by name: the owner of every machine is
known from the moment it exists.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from google.cloud import compute_v1 as compute

from navarch.core.errors import (
    CapacityError,
    OutcomeUnknownError,
    ProviderError,
)
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.gcp.refusals import of_operation
from navarch.providers.gcp.translation import (
    MACHINES,
    GcpSettings,
    Message,
    machine,
    machine_name,
)
from navarch.providers.shared_calls import common_labels

NO_MINIMUM = "VM_MIN_COUNT_NOT_REACHED"
"""The code of an operation that created nothing. Another code beside it has the cause."""

TAKEN = "RESOURCE_ALREADY_EXISTS"


def bulk_insert(
    requests: Sequence[ProvisionRequest],
    settings: GcpSettings,
    *,
    zone: str,
    reservation_bound: bool = False,
    policy: str = "",
    avoided: Iterable[str] = (),
) -> compute.BulkInsertInstanceResource:
    """Return the call for these machines, which differ in names and labels only.

    `avoided` are the zones of the region in which no machine may start: Compute Engine allows every
    zone that is not denied.
    """
    first = requests[0]
    common = common_labels(requests)
    one = machine(
        evolve(first, labels=common),
        settings,
        zone=zone,
        reservation_bound=reservation_bound,
        policy=policy.rpartition("/")[2],
    )
    own = {machine_name(x): dict(x.labels.items() - common.items()) for x in requests}
    if any(own.values()):
        text = json.dumps(own, sort_keys=True)
        one.metadata.items.append(compute.Items(key=MACHINES, value=text))
    whole = bool(first.group) and first.group_size == len(requests)
    call = compute.BulkInsertInstanceResource(
        count=len(requests),
        min_count=len(requests) if whole else 1,
        instance_properties=_properties(one),
        per_instance_properties={
            name: compute.BulkInsertInstanceResourcePerInstanceProperties() for name in own
        },
    )
    if first.zones:
        allowed = dict.fromkeys((zone, *first.zones), "ALLOW")
        preferences = {**dict.fromkeys(avoided, "DENY"), **allowed}
        call.location_policy = compute.LocationPolicy(
            target_shape="ANY",
            locations={
                f"zones/{name}": compute.LocationPolicyLocation(preference=preference)
                for name, preference in preferences.items()
            },
        )
    return call


def _properties(one: compute.Instance) -> compute.InstanceProperties:
    """Return what the machines of a call have in common: without a zone, and names for URLs."""
    for disk in one.disks:
        disk.initialize_params.disk_type = _name(disk.initialize_params.disk_type)
    for gpus in one.guest_accelerators:
        gpus.accelerator_type = _name(gpus.accelerator_type)
    found = compute.InstanceProperties(
        machine_type=_name(one.machine_type),
        labels=one.labels,
        disks=one.disks,
        network_interfaces=one.network_interfaces,
        scheduling=one.scheduling,
        metadata=one.metadata,
        guest_accelerators=one.guest_accelerators,
        service_accounts=one.service_accounts,
        resource_policies=one.resource_policies,
    )
    if "reservation_affinity" in one:
        found.reservation_affinity = one.reservation_affinity
    return found


def started_in(inserts: Iterable[Message]) -> Mapping[str, str]:
    """Return the zone of each machine whose insertion has not failed, by its name."""
    found = {}
    for insert in inserts:
        zone, _, name = insert.target_link.partition("/zones/")[2].partition("/instances/")
        if zone and name and not insert.error.errors:
            found[name] = zone
    return found


def why_missing(
    what: str, operation: Message, inserts: Iterable[Message], *, done: bool
) -> Mapping[str, ProviderError]:
    """Return why machines were not created, by name; under "" the reason of all others."""
    found: dict[str, ProviderError] = {}
    for insert in inserts:
        errors = [(error.code, error.message) for error in insert.error.errors]
        if errors:
            name = insert.target_link.rpartition("/")[2]
            found[name] = of_call(f"{what}: {name}", errors)
    errors = [(error.code, error.message) for error in operation.error.errors]
    if not done:
        found[""] = OutcomeUnknownError(f"{what}: not done yet")
    elif errors:
        found[""] = of_call(what, errors)
    else:
        found[""] = CapacityError(f"{what}: Compute Engine had no more")
    return found


def of_call(what: str, errors: Sequence[tuple[str, str]]) -> ProviderError:
    """Return the translation of the errors of a call for many machines."""
    causes = [each for each in errors if each[0] != NO_MINIMUM] or list(errors)
    if causes[0][0] == TAKEN:
        # A machine of this launch exists after all; the listings show whose it is.
        return OutcomeUnknownError(f"{what}: {causes[0][1]} ({TAKEN})")
    return of_operation(what, causes)


def _name(url: str) -> str:
    return url.rpartition("/")[2]
