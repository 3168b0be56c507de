"""A local Compute Engine: the part of its API that the provider uses, on loopback.

Requests and responses are validated against Google's discovery document. An invalid request is
refused as Google would refuse it; an invalid response is a bug in this file.
"""

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.google_discovery import Call, Discovery

from navarch.sim.kernel.loop import EPOCH
from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

PROJECT = "navarch-test"
BASE = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c", "us-east5-a", "europe-west4-b")
KINDS = {
    "a3-highgpu-8g": (208, 1872, "nvidia-h100-80gb", 8, 16),
    "a3-ultragpu-8g": (224, 2952, "nvidia-h200-141gb", 8, 32),
    "a4-highgpu-8g": (224, 3968, "nvidia-b200", 8, 32),
    "g2-standard-4": (4, 16, "nvidia-l4", 1, 0),
    "n1-standard-8": (8, 30, "", 0, 0),
}
"""By machine type: cores, GiB of memory, GPU type, number of GPUs, local disks."""
DISCOVERY = Discovery()


class RefusedError(Exception):
    """A request that Compute Engine refuses at once."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.response = refusal(status, reason, message)


def refusal(status: int, reason: str, message: str) -> HttpResponse:
    """Return an error in Google's format."""
    entry = {"message": message, "domain": "global", "reason": reason}
    error = {"code": status, "message": message, "errors": [entry]}
    return HttpResponse(status, json.dumps({"error": error}).encode())


@dataclass
class Machine:
    """A machine of the project."""

    zone: str
    body: dict[str, Any]
    number: int
    launched_s: float
    stopped: bool = False
    repairing: bool = False
    deleted_s: float | None = None
    maintenance: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.body["name"])


@dataclass
class LocalOperation:
    """A long-running operation."""

    name: str
    scope: str
    begun_s: float
    done_s: float
    error: tuple[int, str, str] | None = None
    target: str = ""
    group: str = ""
    """The operation for many machines that it is a part of."""


@dataclass
class LocalCompute:
    """One project at Compute Engine."""

    now_s: Callable[[], float] = lambda: 0.0
    insert_s: float = 8.0
    """How long an insertion takes to succeed or fail."""
    boot_s: float = 60.0
    delete_s: float = 20.0
    lag_s: float = 0.0
    """How long a new machine is missing from listings."""
    page: int = 500
    machines: list[Machine] = field(default_factory=list)
    operations: dict[str, LocalOperation] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    """Operations by request id."""
    policies: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    reservations: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    sold_out: set[str] = field(default_factory=set)
    """Zones without stock."""
    stock: dict[str, int] = field(default_factory=dict)
    """The number of machines that are left in a zone, for calls for many."""
    complains: bool = False
    """Whether a call that creates only some of its machines fails as a whole."""
    reverse_zones: bool = False
    """Whether a call for many prefers the last of its zones: Google chooses as it likes."""
    fail_with: tuple[int, str, str] | None = None
    """The error of all further operations."""
    was_reset: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    warn: str = ""
    wire: Wire = field(default_factory=Wire)
    url: str = ""

    def alive(self) -> list[Machine]:
        return [machine for machine in self._there() if machine.deleted_s is None]

    def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            call = DISCOVERY.call(request.method, request.path, request.query)
            body = json.loads(request.body) if request.body else None
            if call.request:
                DISCOVERY.check(call.request, body)
        except ValueError as error:
            return refusal(400, "invalid", str(error))
        try:
            answer = self._answer(call, body)
        except RefusedError as refused:
            return refused.response
        DISCOVERY.check(call.response, answer)
        return HttpResponse(200, json.dumps(answer).encode())

    def _answer(self, call: Call, body: Any) -> Any:
        match call.method:
            case "compute.instances.insert":
                return self._insert(call, body)
            case "compute.instances.get":
                return self._resource(self._machine(call))
            case "compute.instances.delete":
                return self._delete(call)
            case "compute.instances.reset" | "compute.instances.setLabels":
                return self._change(call, body)
            case "compute.machineTypes.aggregatedList":
                return self._machine_types(call)
            case "compute.instances.aggregatedList":
                return self._list(call)
            case "compute.zoneOperations.get" | "compute.regionOperations.get":
                return self._operation(call.path["operation"])
            case "compute.resourcePolicies.insert":
                return self._insert_policy(call, body)
            case "compute.resourcePolicies.list":
                wanted = re.fullmatch(r'name eq "(.*)"', call.query["filter"])
                assert wanted is not None, call.query
                found = [
                    x for (_, name), x in self.policies.items() if re.fullmatch(wanted[1], name)
                ]
                return {"items": found}
            case "compute.resourcePolicies.delete":
                return self._delete_policy(call.path["region"], call.path["resourcePolicy"])
            case "compute.reservations.get":
                place = call.path["zone"], call.path["reservation"]
                if place not in self.reservations:
                    raise RefusedError(404, "notFound", f"no reservation {place[1]}")
                return self.reservations[place]
        return self._answer_bulk(call, body)

    def _answer_bulk(self, call: Call, body: Any) -> Any:
        """Answer the calls that create many machines."""
        match call.method:
            case "compute.instances.bulkInsert":
                return self._bulk_insert(call, body, [call.path["zone"]])
            case "compute.regionInstances.bulkInsert":
                return self._bulk_insert(call, body, _allowed(call.path["region"], body))
            case "compute.regions.get":
                region = call.path["region"]
                zones = [f"{BASE}/zones/{zone}" for zone in ZONES if zone.startswith(region)]
                return {"name": region, "zones": zones}
            case "compute.globalOperations.aggregatedList":
                return self._inserts(call)
        raise AssertionError(f"{call.method} is not there yet")

    def _insert(self, call: Call, body: dict[str, Any]) -> Any:
        if call.path["project"] != PROJECT:
            raise RefusedError(403, "forbidden", "not your project")
        request = call.query["requestId"]
        if request in self.requests:
            return self._operation(self.requests[request])
        zone = call.path["zone"]
        self._check(zone, body)
        if any(m.zone == zone and m.name == body["name"] for m in self._there()):
            raise RefusedError(409, "alreadyExists", f"{body['name']} already exists")
        operation = self._begin(f"zones/{zone}", self.insert_s)
        operation.error = self.fail_with
        if zone in self.sold_out:
            code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
            operation.error = (503, code, f"The zone {zone} does not have enough resources.")
        self.requests[request] = operation.name
        if operation.error is None:
            machine = Machine(zone, body, len(self.machines) + 1, self.now_s())
            self.machines.append(machine)
        return self._operation(operation.name)

    def _bulk_insert(self, call: Call, body: dict[str, Any], zones: list[str]) -> Any:
        request = call.query["requestId"]
        if request in self.requests:
            return self._operation(self.requests[request])
        names, common = list(body["perInstanceProperties"]), body["instanceProperties"]
        if len(names) != int(body["count"]) or not zones:
            raise RefusedError(400, "invalid", "a name for each machine, and a zone")
        for zone in zones:
            self._check(zone, _in_zone(zone, common))
        scope = "regions/" + call.path["region"] if "region" in call.path else f"zones/{zones[0]}"
        operation = self._begin(scope, self.insert_s)
        operation.group = f"group-{operation.name}"
        self.requests[request] = operation.name
        if self.fail_with is not None:
            operation.error = self.fail_with
            return self._operation(operation.name)
        places = self._places(names, zones[::-1] if self.reverse_zones else zones)
        if len(places) < int(body.get("minCount", body["count"])):
            message = "The minimum number of machines could not be created."
            operation.error = (409, "VM_MIN_COUNT_NOT_REACHED", message)
            return self._operation(operation.name)
        if self.complains and len(places) < len(names):
            operation.error = (503, "ZONE_RESOURCE_POOL_EXHAUSTED", "not enough")
        there = {(machine.zone, machine.name) for machine in self._there()}
        for name in names:
            zone = places.get(name, zones[0])
            insert = self._begin(f"zones/{zone}", self.insert_s)
            insert.group, insert.target = operation.group, f"{BASE}/zones/{zone}/instances/{name}"
            if name not in places:
                insert.error = (503, "ZONE_RESOURCE_POOL_EXHAUSTED", f"no more in {zone}")
            if (zone, name) in there:
                insert.error = (409, "RESOURCE_ALREADY_EXISTS", f"{name} already exists")
            if insert.error is not None:
                continue
            self.stock[zone] = self.stock.get(zone, 1000) - 1
            number = len(self.machines) + 1
            started = {**_in_zone(zone, common), "name": name}
            self.machines.append(Machine(zone, started, number, self.now_s()))
        return self._operation(operation.name)

    def _places(self, names: list[str], zones: list[str]) -> dict[str, str]:
        """Return the zone of each machine for which there is one."""
        left = {z: 0 if z in self.sold_out else self.stock.get(z, 1000) for z in zones}
        room = [zone for zone in zones for _ in range(min(left[zone], len(names)))]
        return dict(zip(names, room, strict=False))

    def _inserts(self, call: Call) -> Any:
        wanted = r"\(operationGroupId eq (\S+)\) AND \(operationType eq insert\)"
        group = re.fullmatch(wanted, call.query["filter"])
        assert group is not None, call.query
        items: dict[str, Any] = {}
        for operation in self.operations.values():
            if operation.group == group[1] and operation.target:
                scope = items.setdefault(operation.scope, {"operations": []})
                scope["operations"].append(self._operation(operation.name))
        return {"kind": "compute#operationAggregatedList", "items": items}

    def _check(self, zone: str, body: dict[str, Any]) -> None:
        if zone not in ZONES:
            raise RefusedError(404, "notFound", f"no zone {zone}")
        kind = body["machineType"]
        if not re.fullmatch(rf"zones/{zone}/machineTypes/({'|'.join(KINDS)})", kind):
            raise RefusedError(400, "invalid", f"no machine type {kind}")
        scheduling = body["scheduling"]
        if scheduling.get("onHostMaintenance") != "TERMINATE":
            raise RefusedError(400, "invalid", "machines with GPUs cannot be moved")
        model = scheduling.get("provisioningModel", "STANDARD")
        ends = scheduling.get("instanceTerminationAction")
        if model == "FLEX_START":
            affinity = body.get("reservationAffinity", {}).get("consumeReservationType")
            if affinity != "NO_RESERVATION" or "maxRunDuration" not in scheduling:
                raise RefusedError(400, "invalid", "flex-start: a run duration, and no reservation")
        if ends and model == "STANDARD" and "maxRunDuration" not in scheduling:
            raise RefusedError(
                400, "invalid", "a termination action needs something that terminates"
            )
        if scheduling.get("automaticRestart") and model != "STANDARD":
            raise RefusedError(400, "invalid", f"{model} machines are not restarted")
        self._check_parts(zone, model, body)

    def _check_parts(self, zone: str, model: str, body: dict[str, Any]) -> None:
        for key, value in body.get("labels", {}).items():
            if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key):
                raise RefusedError(400, "invalid", f"label {key}")
            if not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
                raise RefusedError(400, "invalid", f"value {value} of label {key}")
        affinity = body.get("reservationAffinity", {})
        if affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION":
            self._check_reservation(zone, model, affinity)
        for policy in body.get("resourcePolicies", ()):
            region, name = policy.split("/")[-3], policy.split("/")[-1]
            if (region, name) not in self.policies or not zone.startswith(region):
                raise RefusedError(404, "notFound", f"no policy {policy} for {zone}")

    def _check_reservation(self, zone: str, model: str, affinity: dict[str, Any]) -> None:
        assert affinity["key"] == "compute.googleapis.com/reservation-name"
        (name,) = affinity["values"]
        reservation = self.reservations[zone, name.split("/")[-1]]
        if (reservation.get("deploymentType") == "DENSE") != (model == "RESERVATION_BOUND"):
            raise RefusedError(
                400, "invalid", "dense reservations, and only they, bind their machines"
            )

    def _insert_policy(self, call: Call, body: dict[str, Any]) -> Any:
        place = call.path["region"], body["name"]
        if place in self.policies:
            raise RefusedError(409, "alreadyExists", f"{body['name']} already exists")
        self.policies[place] = {**body, "creationTimestamp": self._moment(self.now_s())}
        return self._operation(self._begin(f"regions/{call.path['region']}", 1.0).name)

    def _delete_policy(self, region: str, name: str) -> Any:
        for machine in self._there():
            if any(policy.endswith(f"/{name}") for policy in machine.body["resourcePolicies"]):
                raise RefusedError(400, "resourceInUseByAnotherResource", f"{name} is in use")
        self.policies.pop((region, name))
        return self._operation(self._begin(f"regions/{region}", 1.0).name)

    def _delete(self, call: Call) -> Any:
        machine = self._machine(call)
        if machine.deleted_s is None:
            machine.deleted_s = self.now_s()
        return self._operation(self._begin(f"zones/{machine.zone}", self.delete_s).name)

    def _change(self, call: Call, body: Any) -> Any:
        machine = self._machine(call)
        if call.method == "compute.instances.reset":
            self.was_reset.append(machine.name)
        elif body.get("labelFingerprint") != _fingerprint(machine):
            raise RefusedError(412, "conditionNotMet", "Labels fingerprint either invalid or stale")
        else:
            machine.body["labels"] = body.get("labels", {})
        return self._operation(self._begin(f"zones/{machine.zone}", 1.0).name)

    def _machine(self, call: Call) -> Machine:
        for machine in self._there():
            if (machine.zone, machine.name) == (call.path["zone"], call.path["instance"]):
                return machine
        raise RefusedError(404, "notFound", f"no instance {call.path['instance']}")

    def _there(self) -> list[Machine]:
        now = self.now_s()
        return [
            machine
            for machine in self.machines
            if machine.deleted_s is None or now < machine.deleted_s + self.delete_s
        ]

    def _list(self, call: Call) -> Any:
        now = self.now_s()
        there = [m for m in self._there() if now >= m.launched_s + self.lag_s]
        label = re.fullmatch(r"labels\.([a-z-]+):\*", call.query["filter"])
        assert label is not None, call.query
        listed = [machine for machine in there if label[1] in machine.body.get("labels", {})]
        begin = int(call.query.get("pageToken", "0"))
        size = min(self.page, int(call.query["maxResults"]))
        shown = listed[begin : begin + size]
        items: dict[str, Any] = {}
        for zone in ZONES:
            found = [self._resource(machine) for machine in shown if machine.zone == zone]
            code = self.warn or ("" if found else "NO_RESULTS_ON_PAGE")
            items[f"zones/{zone}"] = {"instances": found} if found else {}
            if code:
                items[f"zones/{zone}"]["warning"] = {"code": code, "message": code}
        answer: dict[str, Any] = {"kind": "compute#instanceAggregatedList", "items": items}
        if begin + size < len(listed):
            answer["nextPageToken"] = str(begin + size)
        if self.unreachable:
            answer["unreachables"] = self.unreachable
        return answer

    def _machine_types(self, call: Call) -> Any:
        wanted = re.fullmatch(r'name eq "(.*)"', call.query["filter"])
        assert wanted is not None, call.query
        items = {}
        for zone in ZONES:
            kinds = [kind for kind in KINDS if re.fullmatch(wanted[1], kind)]
            items[f"zones/{zone}"] = {"machineTypes": [self._kind(kind, zone) for kind in kinds]}
        return {"kind": "compute#machineTypeAggregatedList", "items": items}

    def _kind(self, name: str, zone: str) -> Any:
        vcpus, memory_gib, gpu, gpus, disks = KINDS[name]
        kind: dict[str, Any] = {
            "name": name,
            "zone": zone,
            "guestCpus": vcpus,
            "memoryMb": memory_gib * 1024,
        }
        if gpus:
            with_gpus = {"guestAcceleratorType": gpu, "guestAcceleratorCount": gpus}
            kind["accelerators"] = [with_gpus]
        if disks:
            kind["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": disks}
        return kind

    def _resource(self, machine: Machine) -> Any:
        block = "block-1" if machine.body.get("resourcePolicies") else f"block-{machine.number % 3}"
        status: dict[str, Any] = {
            "physicalHostTopology": {
                "cluster": "cluster-1",
                "block": block,
                "subblock": f"sub-{machine.number}",
                "host": f"host-{machine.number}",
            }
        }
        if machine.maintenance:
            status["upcomingMaintenance"] = machine.maintenance
        interface = {
            "networkIP": f"10.128.0.{machine.number % 250}",
            "accessConfigs": [{"natIP": f"203.0.113.{machine.number % 250}"}],
        }
        return {
            **machine.body,
            "labelFingerprint": _fingerprint(machine),
            "id": str(machine.number),
            "zone": f"{BASE}/zones/{machine.zone}",
            "machineType": f"{BASE}/{machine.body['machineType']}",
            "status": self._status(machine),
            "creationTimestamp": self._moment(machine.launched_s),
            "networkInterfaces": [interface],
            "resourceStatus": status,
        }

    def _status(self, machine: Machine) -> str:
        if machine.deleted_s is not None:
            return "STOPPING"
        if machine.stopped:
            return "TERMINATED"
        if machine.repairing:
            return "REPAIRING"
        age = self.now_s() - machine.launched_s
        return "PROVISIONING" if age < 5 else "STAGING" if age < self.boot_s else "RUNNING"

    def _begin(self, scope: str, lasts_s: float) -> LocalOperation:
        name = f"operation-{len(self.operations)}"
        now = self.now_s()
        operation = LocalOperation(name, scope, now, now + lasts_s)
        self.operations[name] = operation
        return operation

    def _operation(self, name: str) -> Any:
        if name not in self.operations:
            raise RefusedError(404, "notFound", f"no operation {name}")
        operation = self.operations[name]
        done = self.now_s() >= operation.done_s
        answer: dict[str, Any] = {
            **({"operationGroupId": operation.group} if operation.group else {}),
            **({"targetLink": operation.target} if operation.target else {}),
            "name": name,
            "status": "DONE" if done else "RUNNING",
            "insertTime": self._moment(operation.begun_s),
        }
        if done and operation.error:
            status, code, message = operation.error
            answer["error"] = {"errors": [{"code": code, "message": message}]}
            answer["httpErrorStatusCode"] = status
        return answer

    def _moment(self, seconds: float) -> str:
        moment = EPOCH + timedelta(seconds=seconds)
        return datetime.astimezone(moment, UTC).isoformat(timespec="milliseconds")


def _fingerprint(machine: Machine) -> str:
    text = json.dumps(machine.body.get("labels", {}), sort_keys=True)
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _allowed(region: str, body: dict[str, Any]) -> list[str]:
    """Return the zones of a region that a location policy does not deny."""
    policy = body["locationPolicy"]
    assert policy["targetShape"] == "ANY", "the default is one zone for all machines"
    given = {url.removeprefix("zones/"): x["preference"] for url, x in policy["locations"].items()}
    if any(zone not in ZONES or not zone.startswith(region) for zone in given):
        raise RefusedError(400, "invalid", f"not all zones of {region}: {given}")
    return [z for z in ZONES if z.startswith(region) and given.get(z) != "DENY"]


def _in_zone(zone: str, common: dict[str, Any]) -> dict[str, Any]:
    """Return the machine that a call for many starts in a zone: it is given names, not URLs."""
    kinds = [common["machineType"], *common.get("resourcePolicies", [])]
    kinds += [gpus["acceleratorType"] for gpus in common.get("guestAccelerators", [])]
    kinds += [disk["initializeParams"]["diskType"] for disk in common["disks"]]
    if any("/" in kind for kind in kinds):
        raise RefusedError(400, "invalid", f"names, not URLs: {kinds}")
    region = zone.rpartition("-")[0]
    policies = [
        f"regions/{region}/resourcePolicies/{x}" for x in common.get("resourcePolicies", [])
    ]
    kind = f"zones/{zone}/machineTypes/{common['machineType']}"
    return {**common, "machineType": kind, "resourcePolicies": policies}


@contextlib.contextmanager
def local_compute(**settings: Any) -> Iterator[LocalCompute]:
    """Serve a project on loopback and yield it."""
    cloud = LocalCompute(**settings)
    with serve(cloud.answer, cloud.wire) as url:
        cloud.url = url
        yield cloud
