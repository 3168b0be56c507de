"""The provider: one container for each machine, named after the token that asked for it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from navarch.core.errors import (
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.ownership import CLUSTER, TOKEN
from navarch.ports.provider import ProvisionRequest
from navarch.providers.docker.engine import Answer, Engine
from navarch.providers.readings import Readings

OURS = "dev.navarch."
"""What the labels begin with that are the provider's own, and not the machine's."""
PROVIDER, KIND, REGION, ZONE = (f"{OURS}{word}" for word in ("provider", "kind", "region", "zone"))

_STATUSES = {
    "created": InstanceStatus.PENDING,
    "restarting": InstanceStatus.PENDING,
    "running": InstanceStatus.RUNNING,
    "paused": InstanceStatus.RUNNING,
    "removing": InstanceStatus.TERMINATING,
    "exited": InstanceStatus.TERMINATED,
    "dead": InstanceStatus.TERMINATED,
}


class _Endpoint(msgspec.Struct):
    ip_address: str = msgspec.field(default="", name="IPAddress")


class _Networks(msgspec.Struct, rename="pascal"):
    networks: dict[str, _Endpoint] | None = None


class _Listed(msgspec.Struct, rename="pascal"):
    """What we read of a container; there is more in a listing."""

    id: str
    state: str
    created: int
    labels: dict[str, str] | None = None
    network_settings: _Networks | None = None


_LISTINGS = msgspec.json.Decoder(list[msgspec.Raw])
_CONTAINERS = msgspec.json.Decoder(_Listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """What every container is like."""

    image: str
    network: str = "bridge"
    command: tuple[str, ...] = ("navarch", "agent")
    simulated_gpus: int = 0
    real_gpus: bool = False
    """Whether a container gets all GPUs of the engine's machine."""
    environment: Callable[[ProvisionRequest], Mapping[str, str]] = lambda _: {}
    """What its agent is told: where the control plane is, and who it is."""


class Docker:
    """One engine, shared with whoever else uses it: only what bears our label is looked at."""

    listing_lag = timedelta(0)
    """An engine lists what it has."""
    buys_once_per_token = True
    """The token is the container's name, of which there can be one."""

    def __init__(self, engine: Engine, containers: Containers, *, name: str = "docker") -> None:
        self.name = name
        self._engine = engine
        self._containers = containers
        self._readings = Readings(self._instance_listed)

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Create a container and start it; or start the one of this token, if it has to be."""
        if request.spot or request.reservation:
            raise RejectedError("containers are neither spot nor reserved")
        name = container_name(request)
        answer = await self._engine.ask(
            "POST", "/containers/create", query={"name": name}, body=self._description(request)
        )
        if answer.status not in (201, 409):
            raise _refusal(answer, "create")
        container = await self._inspect(name)
        if container is None:
            raise OutcomeUnknownError(f"container {name} vanished while it was created")
        if container["Config"]["Labels"].get(TOKEN, "") != request.labels.get(TOKEN, ""):
            raise RejectedError(f"a container {name} of somebody else is in the way; remove it")
        if container["State"]["Status"] in ("created", "exited"):
            await self._start(container["Id"])
            container = await self._inspect(container["Id"])
            if container is None:
                raise TransientError(f"container {name} ended at once; see the engine's log")
        return self._instance_inspected(container)

    async def terminate(self, instance: InstanceId) -> None:
        """Kill a container and remove it."""
        container = await self._inspect(instance)
        if container is None or container["Config"]["Labels"].get(PROVIDER) != self.name:
            raise InstanceNotFoundError(f"no container {instance}")
        await self._remove(container["Id"])

    async def list_instances(self) -> Sequence[Instance]:
        """Return every container of this provider, running or not."""
        filters = msgspec.json.encode({"label": [f"{PROVIDER}={self.name}"]}).decode()
        answer = await self._engine.ask(
            "GET", "/containers/json", query={"all": "1", "filters": filters}
        )
        if answer.status != 200:
            raise _refusal(answer, "list")
        try:
            return self._readings.take(_LISTINGS.decode(answer.body))
        except ValueError as error:
            # A container left out would look gone; then there had better be no listing at all.
            raise TransientError(f"a listing that makes no sense: {error}") from error

    def _description(self, request: ProvisionRequest) -> dict[str, Any]:
        """Return what the engine is asked for."""
        ours = self._containers
        command = list(ours.command)
        environment = dict(ours.environment(request))
        if ours.simulated_gpus:
            environment |= {
                "NAVARCH_FAKE_GPU": "true",
                "NAVARCH_GPU_COUNT": str(ours.simulated_gpus),
            }
        host: dict[str, Any] = {"NetworkMode": ours.network, "AutoRemove": True, "Init": False}
        if ours.real_gpus:
            host["DeviceRequests"] = [{"Count": -1, "Capabilities": [["gpu"]]}]
        return {
            "Image": ours.image,
            "Hostname": request.name[:63],
            "Entrypoint": command[:1],
            "Cmd": command[1:],
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": {
                **request.labels,
                PROVIDER: self.name,
                KIND: request.instance_type,
                REGION: request.region,
                ZONE: request.zone,
            },
            "HostConfig": host,
        }

    async def _start(self, container: str) -> None:
        answer = await self._engine.ask("POST", f"/containers/{quote(container, safe='')}/start")
        if answer.status in (204, 304):
            return
        refusal = _refusal(answer, "start")
        # It exists and will never run: nobody is to find it and take it for a machine.
        await self._remove(container)
        raise refusal

    async def _remove(self, container: str) -> None:
        answer = await self._engine.ask(
            "DELETE", f"/containers/{quote(container, safe='')}", query={"force": "1", "v": "1"}
        )
        # 409: it is being removed already, which is what was asked for.
        if answer.status not in (204, 404, 409):
            raise _refusal(answer, "remove")

    async def _inspect(self, container: str) -> dict[str, Any] | None:
        answer = await self._engine.ask("GET", f"/containers/{quote(container, safe='')}/json")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise _refusal(answer, "inspect")
        found: dict[str, Any] = answer.json()
        return found

    def _instance_inspected(self, found: dict[str, Any]) -> Instance:
        created = datetime.fromisoformat(found["Created"][:19] + "+00:00")
        return self._instance(
            found["Id"],
            found["State"]["Status"],
            found["Config"]["Labels"],
            created,
            [
                each.get("IPAddress") or ""
                for each in (found["NetworkSettings"].get("Networks") or {}).values()
            ],
        )

    def _instance_listed(self, words: bytes) -> Instance:
        found = _CONTAINERS.decode(words)
        networks = (found.network_settings and found.network_settings.networks) or {}
        return self._instance(
            found.id,
            found.state,
            found.labels or {},
            datetime.fromtimestamp(found.created, UTC),
            [each.ip_address for each in networks.values()],
        )

    def _instance(
        self,
        container: str,
        state: str,
        labels: Mapping[str, str],
        created: datetime,
        addresses: Sequence[str],
    ) -> Instance:
        return Instance(
            id=InstanceId(container),
            provider=ProviderName(self.name),
            status=_STATUSES.get(state, InstanceStatus.PENDING),
            instance_type=labels.get(KIND, ""),
            region=labels.get(REGION, ""),
            zone=labels.get(ZONE, ""),
            private_address=next((each for each in addresses if each), ""),
            labels={name: value for name, value in labels.items() if not name.startswith(OURS)},
            launched_at=created,
        )


def container_name(request: ProvisionRequest) -> str:
    """Return the one name that a container of this token can have."""
    token = f"{request.labels.get(CLUSTER, '')}\0{Token(request.token)}"
    return f"navarch-{hashlib.sha256(token.encode()).hexdigest()[:24]}"


def _refusal(answer: Answer, what: str) -> ProviderError:
    """Return what a refusal means for whoever asked."""
    text = f"the engine will not {what}: {answer.message}"
    if answer.status in (400, 404, 409):
        return RejectedError(text)
    if "could not select device driver" in answer.message:
        return RejectedError(f"{text}; install the NVIDIA container toolkit, or leave GPUs out")
    return TransientError(text)
