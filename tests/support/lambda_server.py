"""A local Lambda: its REST API on loopback, in the vendor's published schema.

The models come from a package that is generated from Lambda's OpenAPI document. They parse every
request, refuse unknown fields, and produce every response. The adapter is therefore tested
against the vendor's schema and not against its author's reading of it.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lambda_ai_cloud_api_client import models
from lambda_ai_cloud_api_client.types import UNSET

from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

KEY = "secret-key-of-the-account"
TAG_KEY = re.compile(r"^[a-z][a-z0-9-:]+$")
GPUS = 8


@dataclass
class LambdaMachine:
    """One machine of the account."""

    id: str
    request: models.InstanceLaunchRequest
    launched_s: float
    ended_s: float | None = None


@dataclass
class LocalLambda:
    """One account at Lambda."""

    now_s: Callable[[], float] = lambda: 0.0
    boot_s: float = 240.0
    lag_s: float = 0.0
    """How long a new machine is missing from listings."""
    linger_s: float = 60.0
    """How long a terminated machine stays in listings."""
    paced: bool = True
    """True if the account's rate limits are enforced."""
    machines: list[LambdaMachine] = field(default_factory=list)
    stock: dict[tuple[str, str], int] = field(default_factory=dict)
    """The remaining stock by type and region; unlimited without an entry."""
    prices: dict[str, int] = field(
        default_factory=lambda: {"gpu_8x_h100_sxm5": 3192, "gpu_1x_h100_pcie": 329}
    )
    ssh_keys: dict[str, str] = field(default_factory=lambda: {"laptop": "ssh-ed25519 AAAAlaptop"})
    quota: int = 1000
    restarted: list[str] = field(default_factory=list)
    unhealthy: list[str] = field(default_factory=list)
    """Machines that Lambda reports as unhealthy."""
    wire: Wire = field(default_factory=Wire)
    url: str = ""
    launches_s: list[float] = field(default_factory=list)
    calls_s: list[float] = field(default_factory=list)

    def alive(self) -> list[LambdaMachine]:
        return [machine for machine in self.machines if machine.ended_s is None]

    def reclaim(self, machine: LambdaMachine) -> None:
        machine.ended_s = self.now_s()

    def has_booted(self, machine: LambdaMachine) -> bool:
        return self.now_s() >= machine.launched_s + self.boot_s

    def address_of(self, machine: LambdaMachine) -> str:
        """Return the public address of a machine that has booted."""
        return f"198.51.100.{7 + self.machines.index(machine) % 200}"

    def answer(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _error(401, "global/invalid-api-key", "API key was invalid.")
        if self.paced and not self._in_pace(request):
            return _error(429, "global/unknown", "Too many requests.")
        match request.method, request.path.removeprefix("/api/v1"):
            case "GET", "/instances":
                return _data([self._instance(one).to_dict() for one in self._listed()])
            case "GET", "/instance-types":
                return _data(self._types().to_dict())
            case "GET", "/ssh-keys":
                return _data([self._ssh_key(name).to_dict() for name in self.ssh_keys])
            case "POST", "/ssh-keys":
                return self._add_key(models.AddSSHKeyRequest.from_dict(json.loads(request.body)))
            case "POST", "/instance-operations/launch":
                return self._launch(request.body)
            case "POST", "/instance-operations/terminate":
                return self._terminate(request.body)
            case "POST", "/instance-operations/restart":
                return self._restart(request.body)
        return _error(404, "global/not-found", f"no {request.path}")

    def _in_pace(self, request: HttpRequest) -> bool:
        now = self.now_s()
        # A tolerance of a millisecond: sums of floating-point numbers are not exact.
        calm = not self.calls_s or now - self.calls_s[-1] >= 1.0 - 1e-3
        self.calls_s.append(now)
        if request.path.endswith("/launch"):
            calm &= not self.launches_s or now - self.launches_s[-1] >= 12.0 - 1e-3
            self.launches_s.append(now)
        return calm

    def _listed(self) -> list[LambdaMachine]:
        now = self.now_s()
        return [
            machine
            for machine in self.machines
            if now >= machine.launched_s + self.lag_s
            and (machine.ended_s is None or now < machine.ended_s + self.linger_s)
        ]

    def _launch(self, body: bytes) -> HttpResponse:
        try:
            request = models.InstanceLaunchRequest.from_dict(json.loads(body))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            return _error(400, "global/invalid-parameters", f"{error!r}")
        wrong = self._wrong(request)
        if wrong:
            return _error(400, "global/invalid-parameters", wrong)
        kind, region = request.instance_type_name, str(request.region_name)
        if kind not in self.prices or request.ssh_key_names[0] not in self.ssh_keys:
            return _error(404, "global/object-does-not-exist", "no such type or key")
        if len(self.alive()) >= self.quota:
            return _error(400, "global/quota-exceeded", "Quota exceeded.")
        if self.stock.get((kind, region), 1) <= 0:
            code = "instance-operations/launch/insufficient-capacity"
            return _error(400, code, "Not enough capacity to fulfill launch request.")
        if (kind, region) in self.stock:
            self.stock[kind, region] -= 1
        machine = LambdaMachine(f"{len(self.machines):032x}", request, self.now_s())
        self.machines.append(machine)
        return _data(models.InstanceLaunchResponse(instance_ids=[machine.id]).to_dict())

    def _wrong(self, request: models.InstanceLaunchRequest) -> str:
        if request.additional_properties:
            return f"unknown fields {sorted(request.additional_properties)}"
        if len(request.ssh_key_names) != 1:
            return "exactly one SSH key"
        if isinstance(request.name, str) and len(request.name) > 64:
            return "name too long"
        if isinstance(request.user_data, str) and len(request.user_data.encode()) > 1024 * 1024:
            return "user data too long"
        for tag in request.tags or ():
            if tag.additional_properties or not TAG_KEY.match(tag.key) or len(tag.value) > 128:
                return f"tag {tag.key}"
        return ""

    def _terminate(self, body: bytes) -> HttpResponse:
        ids = models.InstanceTerminateRequest.from_dict(json.loads(body)).instance_ids
        found = [machine for machine in self.alive() if machine.id in ids]
        if len(found) != len(ids):
            return _error(404, "global/object-does-not-exist", "no such instance")
        for machine in found:
            machine.ended_s = self.now_s()
        ended = [self._instance(machine) for machine in found]
        return _data(models.InstanceTerminateResponse(terminated_instances=ended).to_dict())

    def _restart(self, body: bytes) -> HttpResponse:
        ids = models.InstanceRestartRequest.from_dict(json.loads(body)).instance_ids
        found = [machine for machine in self.alive() if machine.id in ids]
        if len(found) != len(ids):
            return _error(404, "global/object-does-not-exist", "no such instance")
        self.restarted += ids
        again = [self._instance(machine) for machine in found]
        return _data(models.InstanceRestartResponse(restarted_instances=again).to_dict())

    def _add_key(self, request: models.AddSSHKeyRequest) -> HttpResponse:
        if request.name in self.ssh_keys:
            return _error(400, "global/duplicate", "duplicate")
        self.ssh_keys[request.name] = str(request.public_key)
        return _data(self._ssh_key(request.name).to_dict())

    def _ssh_key(self, name: str) -> models.SSHKey:
        return models.SSHKey(id=f"key-{name}", name=name, public_key=self.ssh_keys[name])

    def _types(self) -> models.InstanceTypes:
        types = models.InstanceTypes()
        regions = ("us-east-1", "us-west-1")
        for name in self.prices:
            open_regions = [r for r in regions if self.stock.get((name, r), 1) > 0]
            types.additional_properties[name] = models.InstanceTypesItem(
                instance_type=self._type(name),
                regions_with_capacity_available=[_region(r) for r in open_regions],
            )
        return types

    def _type(self, name: str) -> models.InstanceType:
        gpus = int(name.split("_")[1].rstrip("x"))
        specs = models.InstanceTypeSpecs(vcpus=208, memory_gib=1800, storage_gib=22000, gpus=gpus)
        return models.InstanceType(
            name=name,
            description=f"{gpus}x H100 (80 GB SXM5)",
            gpu_description="H100 (80 GB SXM5)",
            price_cents_per_hour=self.prices[name],
            specs=specs,
        )

    def _instance(self, machine: LambdaMachine) -> models.Instance:
        request = machine.request
        booted = self.has_booted(machine)
        status = models.InstanceStatus.ACTIVE if booted else models.InstanceStatus.BOOTING
        if machine.id in self.unhealthy:
            status = models.InstanceStatus.UNHEALTHY
        if machine.ended_s is not None:
            status = models.InstanceStatus.TERMINATING
        can = models.InstanceActionAvailabilityDetails(available=True)
        return models.Instance(
            id=machine.id,
            status=status,
            ssh_key_names=request.ssh_key_names,
            file_system_names=[],
            region=_region(str(request.region_name)),
            instance_type=self._type(request.instance_type_name),
            actions=models.InstanceActionAvailability(
                migrate=can, rebuild=can, restart=can, cold_reboot=can, terminate=can
            ),
            name=request.name,
            ip=self.address_of(machine) if booted else UNSET,
            private_ip="10.19.0.7" if booted else UNSET,
            tags=[models.TagEntry(key=t.key, value=t.value) for t in request.tags or ()],
        )


def _region(name: str) -> models.Region:
    return models.Region(name=models.PublicRegionCode(name), description=name)


def _data(value: Any) -> HttpResponse:
    return HttpResponse(200, json.dumps({"data": value}).encode())


def _error(status: int, code: str, message: str) -> HttpResponse:
    error = {"code": code, "message": message, "suggestion": "think again"}
    return HttpResponse(status, json.dumps({"error": error}).encode())


@contextlib.contextmanager
def local_lambda(**settings: Any) -> Iterator[LocalLambda]:
    """Serve an account on loopback and yield it."""
    cloud = LocalLambda(**settings)
    with serve(cloud.answer, cloud.wire) as url:
        cloud.url = f"{url}/api/v1"
        yield cloud
